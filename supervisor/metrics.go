package supervisor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// Metrics is the metric set of the service. Labels are workdir, tier, outcome
// and reason, all of them bounded; ids never become labels.
type Metrics struct {
	turnDuration *prometheus.HistogramVec
	firstToken   *prometheus.HistogramVec
	queueWait    *prometheus.HistogramVec
	taskDuration *prometheus.HistogramVec
	childStart   *prometheus.HistogramVec
	replace      *prometheus.HistogramVec
	tasks        *prometheus.CounterVec
	turns        *prometheus.CounterVec
	restarts     *prometheus.CounterVec
	interrupts   *prometheus.CounterVec
	declined     *prometheus.CounterVec
	verdicts     *prometheus.CounterVec
	badLines     *prometheus.CounterVec
	unknownNotes *prometheus.CounterVec
	orphans      *prometheus.CounterVec
	tokens       *prometheus.CounterVec
	childUp      *prometheus.GaugeVec
	generation   *prometheus.GaugeVec
	resident     *prometheus.GaugeVec
	queueDepth   *prometheus.GaugeVec
	turnsRunning *prometheus.GaugeVec
	threads      *prometheus.GaugeVec
	confined     *prometheus.GaugeVec
	crashLooping *prometheus.GaugeVec
	undelivered  *prometheus.GaugeVec
	homeBytes    *prometheus.GaugeVec
	heldUntil    *prometheus.GaugeVec
	reloadOK     prometheus.Gauge
	buildInfo    *prometheus.GaugeVec
}

// Buckets reach from an instant stub turn to the longest owner turn.
var (
	turnBuckets  = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600}
	startBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60}
)

// NewMetrics registers the metric set.
func NewMetrics(reg prometheus.Registerer, version string) *Metrics {
	f := promauto.With(reg)
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return f.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "codex_supervisor", Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "codex_supervisor", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "codex_supervisor", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		turnDuration: histogram("turn_duration_seconds", "Time from turn/start to the end of the turn.", turnBuckets, "workdir", "tier", "outcome"),
		firstToken:   histogram("first_token_seconds", "Time from turn/start to the first text of the model.", turnBuckets, "workdir", "tier"),
		queueWait:    histogram("queue_wait_seconds", "Time from the task file's mtime to the start of its first attempt.", turnBuckets, "workdir", "tier"),
		taskDuration: histogram("task_duration_seconds", "Time from the task file's mtime to its published result.", turnBuckets, "workdir", "tier", "outcome"),
		childStart:   histogram("child_start_seconds", "Time from the start of an app-server to its readiness.", startBuckets, "workdir"),
		replace:      histogram("replace_duration_seconds", "Time from the decision to stop an app-server until nothing of it is left.", startBuckets, "workdir"),
		tasks:        counter("tasks_total", "Tasks settled.", "workdir", "tier", "outcome", "reason"),
		turns:        counter("turns_total", "Turns ended.", "workdir", "tier", "outcome"),
		restarts:     counter("restarts_total", "Generations of the app-server that were followed by another.", "workdir", "reason"),
		interrupts:   counter("interrupts_total", "Turns interrupted by the service.", "workdir", "reason"),
		declined:     counter("declined_requests_total", "Requests of the app-server (approvals and the like) that were declined.", "workdir"),
		verdicts:     counter("envelope_verdicts_total", "Task files by the verdict on their envelope.", "workdir", "reason"),
		badLines:     counter("rpc_bad_lines_total", "Lines of the app-server that were skipped.", "workdir", "reason"),
		unknownNotes: counter("rpc_unknown_notifications_total", "Notifications of the app-server that are not known here.", "workdir"),
		orphans:      counter("orphans_reaped_total", "Processes an app-server left behind that were ended.", "workdir"),
		tokens:       counter("tokens_total", "Tokens used by turns, as the app-server reports them.", "workdir", "tier"),
		childUp:      gauge("child_up", "Whether the app-server is up (ready, held or draining).", "workdir"),
		generation:   gauge("child_generation", "Number of the app-server's present generation.", "workdir"),
		resident:     gauge("child_resident_bytes", "Resident memory of the app-server.", "workdir"),
		queueDepth:   gauge("queue_depth", "Tasks that wait to be run.", "workdir", "tier"),
		turnsRunning: gauge("turns_running", "Tasks that are being run.", "workdir", "tier"),
		threads:      gauge("threads", "Channels with a durable thread.", "workdir"),
		confined:     gauge("guest_confinement_ok", "Whether non-owner turns are proven to be confined (1) or refused (0).", "workdir"),
		crashLooping: gauge("crash_looping", "Whether the app-server keeps dying without a stable minute.", "workdir"),
		undelivered:  gauge("results_undelivered", "Results of ours that lie in the gateway's undelivered folder.", "workdir"),
		homeBytes:    gauge("home_bytes", "Size of the app-server's CODEX_HOME.", "workdir"),
		heldUntil:    gauge("held_until_timestamp_seconds", "When the hold on new turns ends; 0 when there is none or its end is unknown.", "workdir"),
		buildInfo:    gauge("build_info", "Always 1; the version is the label.", "version"),
		reloadOK: f.NewGauge(prometheus.GaugeOpts{
			Namespace: "codex_supervisor", Name: "config_last_reload_successful", Help: "Whether the last configuration load succeeded.",
		}),
	}
	m.buildInfo.WithLabelValues(version).Set(1)
	m.reloadOK.Set(1)
	return m
}

// workdirMetrics is the metric set with the work dir's label filled in.
type workdirMetrics struct {
	m            *Metrics
	name         string
	childStart   prometheus.Observer
	replace      prometheus.Observer
	crashLooping prometheus.Gauge
}

func (m *Metrics) workdir(name string) *workdirMetrics {
	w := &workdirMetrics{
		m: m, name: name,
		childStart:   m.childStart.WithLabelValues(name),
		replace:      m.replace.WithLabelValues(name),
		crashLooping: m.crashLooping.WithLabelValues(name),
	}
	// Counters that alerts look at exist from the start, so that the first
	// increase is seen as one.
	m.orphans.WithLabelValues(name)
	m.declined.WithLabelValues(name)
	m.confined.WithLabelValues(name)
	m.undelivered.WithLabelValues(name)
	m.heldUntil.WithLabelValues(name)
	for _, t := range task.AllTiers() {
		m.queueDepth.WithLabelValues(name, string(t))
		m.turnsRunning.WithLabelValues(name, string(t))
	}
	return w
}

func (w *workdirMetrics) child(s ChildStatus) {
	up := s.State == ChildReady || s.State == ChildHeld || s.State == ChildDraining
	w.m.childUp.WithLabelValues(w.name).Set(boolGauge(up))
	w.m.generation.WithLabelValues(w.name).Set(float64(s.Generation))
	until := 0.0
	if !s.HeldUntil.IsZero() {
		until = float64(s.HeldUntil.Unix())
	}
	w.m.heldUntil.WithLabelValues(w.name).Set(until)
	if !up {
		w.m.resident.WithLabelValues(w.name).Set(0)
	}
}

func (w *workdirMetrics) restart(why reason.Reason) {
	w.m.restarts.WithLabelValues(w.name, string(why)).Inc()
}

func (w *workdirMetrics) interrupt(why reason.Reason) {
	w.m.interrupts.WithLabelValues(w.name, string(why)).Inc()
}

func (w *workdirMetrics) verdict(v task.Verdict) {
	w.m.verdicts.WithLabelValues(w.name, string(v)).Inc()
}

func (w *workdirMetrics) turn(t task.Tier, outcome store.Outcome, took, firstToken time.Duration) {
	w.m.turns.WithLabelValues(w.name, string(t), string(outcome)).Inc()
	w.m.turnDuration.WithLabelValues(w.name, string(t), string(outcome)).Observe(took.Seconds())
	if firstToken > 0 {
		w.m.firstToken.WithLabelValues(w.name, string(t)).Observe(firstToken.Seconds())
	}
}

func (w *workdirMetrics) settled(r store.Row) {
	w.m.tasks.WithLabelValues(w.name, string(r.Tier), string(r.Outcome), string(r.Reason)).Inc()
	if !r.Queued.IsZero() && r.SettledAt.After(r.Queued) {
		w.m.taskDuration.WithLabelValues(w.name, string(r.Tier), string(r.Outcome)).Observe(r.SettledAt.Sub(r.Queued).Seconds())
	}
}

func (w *workdirMetrics) waited(t task.Tier, d time.Duration) {
	w.m.queueWait.WithLabelValues(w.name, string(t)).Observe(max(d, 0).Seconds())
}
