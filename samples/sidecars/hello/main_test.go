package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHello(t *testing.T) {
	t.Parallel()
	var got []byte
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		fmt.Fprint(w, "from the other")
	}))
	t.Cleanup(other.Close)
	file := filepath.Join(t.TempDir(), "config")
	a := &app{call: other.URL, otlp: other.URL, file: file}
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("X-Forwarded-User", "ann")
		a.handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, text := ask("/config"); code != http.StatusNotFound || !strings.Contains(text, "CONFIG_FILE") {
		t.Errorf("without a file: %d %s", code, text)
	}
	if err := os.WriteFile(file, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.load()
	for path, want := range map[string]string{"/config": "first", "/healthz": "ok", "/call": "from the other",
		"/x?y=1": `"/x?y=1"`, "/": `"ann"`} {
		if code, text := ask(path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %q", path, code, text, want)
		}
	}
	if code, _ := ask("/trace"); code != http.StatusOK || !json.Valid(got) ||
		!strings.Contains(string(got), `"GET /trace"`) {
		t.Errorf("trace: %d, sent %s", code, got)
	}
}
