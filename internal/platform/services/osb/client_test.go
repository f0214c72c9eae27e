package osb_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/safedial"
	"ingot/internal/platform/services/osb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker answers everything with one function.
func broker(t *testing.T, f http.HandlerFunc) (*osb.Client, osb.Broker) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c := osb.New(osb.Options{Timeout: 20 * time.Second, Trip: 3, Rest: time.Hour})
	t.Cleanup(c.Close)
	return c, osb.Broker{GUID: "g", Name: "b", URL: server.URL + "/", Username: "u", Password: "hunter2"}
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

var instance = osb.Instance{ID: "i/../x", ServiceID: "s", PlanID: "p"}

// outcome is that of an answer or of an error.
func outcome(t *testing.T, a *osb.Answer, err error) osb.Outcome {
	t.Helper()
	var e *osb.Error
	switch {
	case err == nil:
		return a.Outcome
	case !errors.As(err, &e):
		t.Fatalf("an error of another type: %v", err)
	case strings.Contains(err.Error(), "hunter2"):
		t.Errorf("the password is in %v", err)
	case e.Message == "" || strings.Contains(e.Message, "\n") || e.Title == "":
		t.Errorf("the message is %q, the title %q", e.Message, e.Title)
	}
	return e.Outcome
}

// TestAnswers sees what is made of what brokers say.
func TestAnswers(t *testing.T) {
	t.Parallel()
	provision := func(c *osb.Client, b osb.Broker) (*osb.Answer, error) {
		return c.Provision(t.Context(), b, osb.Change{Instance: instance})
	}
	deprovision := func(c *osb.Client, b osb.Broker) (*osb.Answer, error) {
		return c.Deprovision(t.Context(), b, instance, "")
	}
	update := func(c *osb.Client, b osb.Broker) (*osb.Answer, error) {
		return c.Update(t.Context(), b, osb.Change{Instance: instance})
	}
	poll := func(c *osb.Client, b osb.Broker) (*osb.Answer, error) {
		return c.Poll(t.Context(), b, instance, "op", "")
	}
	bind := func(c *osb.Client, b osb.Broker) (*osb.Answer, error) {
		made, err := c.Bind(t.Context(), b, osb.BindChange{Instance: instance, BindingID: "x"})
		if err != nil {
			return nil, err
		}
		return &made.Answer, nil
	}
	long := strings.Repeat("x", 2<<20)
	for name, test := range map[string]struct {
		call   func(*osb.Client, osb.Broker) (*osb.Answer, error)
		status int
		body   string
		want   osb.Outcome
	}{
		"made":                {provision, 201, `{}`, osb.Done},
		"there already":       {provision, 200, `{}`, osb.Done},
		"accepted":            {provision, 202, `{"operation":"o"}`, osb.Accepted},
		"made, no JSON":       {provision, 201, `made`, osb.Unknown},
		"made, empty":         {provision, 201, ``, osb.Unknown},
		"made, a list":        {provision, 201, `[]`, osb.Unknown},
		"made, and more":      {provision, 201, `{}{}`, osb.Unknown},
		"made, wrong types":   {provision, 201, `{"operation":7}`, osb.Unknown},
		"another 2xx":         {provision, 204, ``, osb.Unknown},
		"too large":           {provision, 201, `{"x":"` + long + `"}`, osb.Unknown},
		"redirect":            {provision, 307, ``, osb.Unknown},
		"refused":             {provision, 400, `{"description":"no"}`, osb.Refused},
		"refused, a mess":     {provision, 400, `<html>` + "\n", osb.Refused},
		"refused, many words": {provision, 400, `{"description":"a\nb` + strings.Repeat("y", 5000) + `"}`, osb.Refused},
		"wrong password":      {provision, 401, ``, osb.Refused},
		"conflict":            {provision, 409, `{}`, osb.Refused},
		"busy":                {provision, 422, `{"error":"ConcurrencyError"}`, osb.Busy},
		"async required":      {provision, 422, `{"error":"AsyncRequired"}`, osb.Refused},
		"failed":              {provision, 500, `{"description":"oops"}`, osb.Unknown},
		"unavailable":         {provision, 503, ``, osb.Unknown},
		"deleted":             {deprovision, 200, `{}`, osb.Done},
		"deleted before":      {deprovision, 410, `{}`, osb.Gone},
		"deleting":            {deprovision, 202, `{}`, osb.Accepted},
		"updated":             {update, 200, `{}`, osb.Done},
		"update made":         {update, 201, `{}`, osb.Unknown},
		"working":             {poll, 200, `{"state":"in progress"}`, osb.Working},
		"worked":              {poll, 200, `{"state":"succeeded"}`, osb.Done},
		"broke":               {poll, 200, `{"state":"failed"}`, osb.Refused},
		"no state":            {poll, 200, `{"state":"maybe"}`, osb.Unknown},
		"poll refused":        {poll, 400, `{}`, osb.Refused},
		"poll not found":      {poll, 404, `{}`, osb.Unknown},
		"poll gone":           {poll, 410, `{}`, osb.Gone},
		"bound":               {bind, 201, `{"credentials":{"a":1}}`, osb.Done},
		"bound to a lie":      {bind, 201, `{"credentials":"a"}`, osb.Unknown},
		"bound by http":       {bind, 201, `{"route_service_url":"http://x"}`, osb.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, b := broker(t, func(w http.ResponseWriter, r *http.Request) {
				if test.status == http.StatusTemporaryRedirect {
					w.Header().Set("Location", "/v2/elsewhere")
				}
				if !strings.HasPrefix(r.URL.EscapedPath(), "/v2/service_instances/i%2F..%2Fx") {
					t.Errorf("asked for %s", r.URL.EscapedPath())
				}
				says(test.status, test.body)(w, r)
			})
			a, err := test.call(c, b)
			if got := outcome(t, a, err); got != test.want {
				t.Errorf("%s, want %s (%v)", got, test.want, err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"7": 7 * time.Second, "": 0, "-1": 0, "soon": 0, "99999999": 0} {
		c, b := broker(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", text)
			_, _ = w.Write([]byte(`{"state":"in progress"}`))
		})
		if a, err := c.Poll(t.Context(), b, instance, "", ""); err != nil || a.RetryAfter != want {
			t.Errorf("Retry-After %q gives %v, %v, want %v", text, a, err, want)
		}
	}
}

// TestNobody sees that a broker that is not there is left alone after a while,
// and that one which does not answer leaves open what it did.
func TestNobody(t *testing.T) {
	t.Parallel()
	c := osb.New(osb.Options{Timeout: 20 * time.Second, Trip: 3, Rest: time.Hour})
	defer c.Close()
	gone := httptest.NewServer(nil)
	b := osb.Broker{GUID: "g", Name: "b", URL: gone.URL, Username: "u", Password: "hunter2"}
	gone.Close()
	for n := range 5 {
		a, err := c.Deprovision(t.Context(), b, instance, "")
		if got := outcome(t, a, err); got != osb.Unavailable {
			t.Errorf("%s, want unavailable", got)
		}
		if open := strings.Contains(err.Error(), "is not called for a moment"); open != (n >= 3) {
			t.Errorf("attempt %d: the breaker is open: %t, want %t: %v", n, open, n >= 3, err)
		}
	}
	var calls atomic.Int32
	end := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(end)
	impatient := osb.New(osb.Options{Timeout: 2 * time.Second})
	defer impatient.Close()
	a, err := impatient.Deprovision(t.Context(), osb.Broker{URL: slow.URL, Name: "slow"}, instance, "")
	if got := outcome(t, a, err); got != osb.Unknown || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("outcome is %s, %v, want %s with a timeout", got, err, osb.Unknown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Deprovision(ctx, osb.Broker{URL: slow.URL}, instance, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	service := func(more string) string {
		return `{"services":[{"id":"s","name":"n","description":"d","plans":[{"id":"p","name":"n","description":"d"` +
			more + `}]}]}`
	}
	for body, problem := range map[string]string{
		service(""):           "",
		`{"services":[]}`:     "at least one service",
		`{"services":[{}]}`:   "must not be empty",
		`{"services":[null]}`: "must be an object",
		service(`},{"id":"p","name":"m","description":"d"`):                 "Plan ids must be unique",
		service(`},{"id":"q","name":"n","description":"d"`):                 "Plan names must be unique",
		service(`,"maximum_polling_duration":-1`):                           "must not be negative",
		`{"services":[{"id":"s","name":"n","description":"d","plans":[]}]}`: "At least one plan",
		`nonsense`: "invalid response",
	} {
		c, b := broker(t, says(200, body))
		_, err := c.Catalog(t.Context(), b)
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %v, want %q", body, err, problem)
		}
	}
}

// TestGuarded does not call a developer's broker on this machine, unless an
// operator allows it; a broker that is an app here is called by its route.
func TestGuarded(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		says(200, `{"services":[]}`)(w, r)
	}))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://")
	routes := safedial.Routes{At: at, Has: func(host, _ string) bool { return host == "broker.apps.test" }}
	for name, c := range map[string]struct {
		url     string
		guarded bool
		guard   safedial.Guard
		called  bool
	}{
		"an operator's":     {server.URL, false, safedial.Guard{}, true},
		"a developer's":     {server.URL, true, safedial.Guard{}, false},
		"allowed":           {server.URL, true, safedial.Everywhere, true},
		"an app here":       {"http://broker.apps.test", true, safedial.Guard{}, true},
		"an app, over TLS":  {"https://broker.apps.test", true, safedial.Guard{}, true},
		"metadata of cloud": {"http://169.254.169.254", true, safedial.Guard{}, false},
	} {
		before := asked
		client := osb.New(osb.Options{Timeout: 20 * time.Second, Guard: c.guard, Routes: routes})
		_, err := client.Catalog(t.Context(), osb.Broker{GUID: "g", Name: "b", URL: c.url, Username: "u", Password: "p",
			Guarded: c.guarded})
		client.Close()
		if called := asked > before; called != c.called {
			t.Errorf("%s: called %t, %v", name, called, err)
		}
		var e *osb.Error
		if !c.called && (!errors.As(err, &e) || e.Outcome != osb.Unavailable ||
			!strings.Contains(e.Message, "--allow-networks")) {
			t.Errorf("%s: error is %v, want %s and --allow-networks", name, err, osb.Unavailable)
		}
	}
}
