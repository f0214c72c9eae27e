package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestEdit calls the API with the values of the form and shows the page that follows.
func TestEdit(t *testing.T) {
	t.Parallel()
	called := ""
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		called = r.Method + " " + r.RequestURI + " " + r.Header.Get("X-Version") + " " + strings.TrimSpace(string(body))
		if strings.Contains(r.RequestURI, "refused") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	c := New(Options{Platform: api}, nil, nil)
	failed := false
	edit := API(c.Platform).Edit(Edit{
		Method: http.MethodPut, Path: "/v3/things/{thing}/name", Header: map[string]string{"X-Version": "2"},
		Body: func(form url.Values) (any, error) { return map[string]string{"name": form.Get("name")}, nil },
		To:   "/things/{thing}", Said: "renamed",
		Failed: func(http.ResponseWriter, *http.Request, *Session, error) error {
			failed = true
			return nil
		},
	})
	for thing, want := range map[string]struct{ called, location string }{
		"a/b?":    {`PUT /v3/things/a%2Fb%3F/name 2 {"name":"new"}`, "/console/things/a%2Fb%3F?said=renamed"},
		"refused": {`PUT /v3/things/refused/name 2 {"name":"new"}`, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/console/things/rename", http.NoBody)
		r.PostForm = url.Values{"thing": {thing}, "name": {"new"}}
		w := httptest.NewRecorder()
		failed = false
		if err := edit(w, r, &Session{}); err != nil {
			t.Errorf("%s: %v", thing, err)
		}
		if got := w.Header().Get("Location"); called != want.called || got != want.location || failed != (got == "") {
			t.Errorf("%s: called %s and went to %q (failed: %t), want %s and %q", thing, called, got, failed,
				want.called, want.location)
		}
	}
}
