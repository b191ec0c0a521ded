package control_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
)

func TestWeb_MetricsAndHealth(t *testing.T) {
	backend := &fake{dirs: []*fakeDir{{name: "garden"}}}
	h := serve(t, backend, nil)
	base := "http://" + h.Addr()
	for path, want := range map[string]string{"/metrics": "\ntest_up 3\n", "/livez": "ok\n", "/readyz": "ok\n", "/": "codex-supervisor status"} {
		if status, text := get(t, base+path, ""); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %q", path, status, text)
		}
	}
	if status, _ := get(t, base+"/v1/status", ""); status != http.StatusNotFound {
		t.Errorf("the API is on the loopback listener: %d", status)
	}
	backend.problems = []string{"garden: child is backoff exited", "kitchen: child is down"}
	if status, text := get(t, base+"/readyz", ""); status != http.StatusServiceUnavailable || text != "garden: child is backoff exited\nkitchen: child is down\n" {
		t.Errorf("readyz: %d %q", status, text)
	}
	backend.problems, backend.degraded = []string{"garden: degraded: guests are refused"}, true
	if status, text := get(t, base+"/readyz", ""); status != http.StatusOK || text != "ok\ngarden: degraded: guests are refused\n" {
		t.Errorf("readyz of a degraded service: %d %q", status, text)
	}
	if status, _ := get(t, base+"/livez", ""); status != http.StatusOK {
		t.Errorf("livez of a service that is not ready: %d", status)
	}
}

func TestWeb_OtherNamesAreRefused(t *testing.T) {
	h := serve(t, &fake{}, nil)
	base := "http://" + h.Addr() + "/metrics"
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:9464": 200, "127.0.0.1:1": 200, "[::1]:9464": 200, "[::1]": 200, "10.1.2.3": 200,
		"evil.example": 403, "evil.example:9464": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		if status, text := get(t, base, host); status != want || status == 403 && strings.Contains(text, "test_up") {
			t.Errorf("Host %s: %d %q", host, status, text)
		}
	}
	named := serve(t, &fake{}, func(o *control.Options) { o.Listen = "localhost:0" })
	if status, _ := get(t, "http://"+named.Addr()+"/livez", "localhost:1"); status != 200 {
		t.Errorf("the name it listens on: %d", status)
	}
}
