package control

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const pointer = `codex-supervisor

/metrics  for Prometheus
/livez    is the service alive
/readyz   can every work dir answer; if not, why not

Everything else is on the command line: codex-supervisor status
`

func (s *Server) web() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.opt.Gatherer, promhttp.HandlerOpts{
		ErrorLog: metricErrors{s}, EnableOpenMetrics: true, Timeout: answerTimeout,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		s.opt.Backend.Status() // would hang with what it looks at
		plain(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ok, problems := s.opt.Backend.Ready()
		status, lines := http.StatusOK, append([]string{"ok"}, problems...)
		if !ok {
			status, lines = http.StatusServiceUnavailable, problems
		}
		// What is degraded is told beside the ok: owners are answered.
		plain(w, status, strings.Join(lines, "\n")+"\n")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, pointer) })
	return s.knownHost(mux)
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// knownHost refuses requests for a name that is not ours. A page in a browser
// can have its own name point to 127.0.0.1 and then read what is here; it
// cannot do so with an address or with localhost.
func (s *Server) knownHost(next http.Handler) http.Handler {
	own := hostOf(s.opt.Listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		if _, err := netip.ParseAddr(host); err != nil && !strings.EqualFold(host, "localhost") && (own == "" || !strings.EqualFold(host, own)) {
			plain(w, http.StatusForbidden, fmt.Sprintf("this service is not called %.100q; ask for it by address or as localhost\n", host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is a Host header or an address without its port and brackets.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// metricErrors logs what promhttp has to complain about.
type metricErrors struct{ s *Server }

func (m metricErrors) Println(v ...any) {
	m.s.log.Warn("metrics not complete", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}
