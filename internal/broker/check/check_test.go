package check_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/broker/check"
)

func run(t *testing.T, b *toy) *check.Report {
	t.Helper()
	server := httptest.NewServer(b)
	defer server.Close()
	r, err := check.Run(t.Context(), check.Options{
		URL: server.URL, Username: "u", Password: "p",
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Poll:   time.Millisecond, Patience: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := b.left(); n > 0 && b.fault == "" {
		t.Errorf("%d instances are left", n)
	}
	return r
}

func text(r *check.Report) string {
	var b bytes.Buffer
	r.Write(&b)
	return b.String()
}

func TestGoodBrokersPass(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*toy{"sync": {}, "async": {async: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, b)
			if !r.OK() || r.Warned > 0 {
				t.Errorf("a good broker:\n%s", text(r))
			}
			if b.async {
				for _, result := range r.Results {
					if result.Outcome == check.Skip && strings.Contains(result.Name, "progress") {
						t.Errorf("skipped: %s: %s", result.Name, result.Reason)
					}
				}
			}
		})
	}
}

// Each fault of a broker is found by the check for it.
func TestEachFaultIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault string
		async bool
		found string
	}{
		{"no auth", false, "without credentials"},
		{"any password", false, "wrong password is rejected"},
		{"any password for changes", false, "wrong password is rejected for changes"},
		{"broken by identity", false, "malformed identity"},
		{"catalog is a list", false, "the catalog is a list of services"},
		{"catalog text port", false, "the catalog is a list of services"},
		{"catalog no bindable", false, "services have all required"},
		{"catalog same service", false, "services have all required"},
		{"catalog no plans", false, "services have all required"},
		{"catalog bad permission", false, "services have all required"},
		{"catalog no description", false, "plans have all required"},
		{"catalog same plan id", false, "plans have all required"},
		{"catalog bad maintenance", false, "plans have all required"},
		{"catalog bad polling", false, "plans have all required"},
		{"catalog bad schema", false, "schemas are JSON schemas"},
		{"catalog new ids", false, "ids stay the same"},
		{"provision bad json", false, "Provisioning/a body that is not JSON"},
		{"provision no service", false, "Provisioning/a request without service_id"},
		{"provision no plan", false, "Provisioning/a request without plan_id"},
		{"provision unknown service", false, "an unknown service_id"},
		{"provision unknown plan", false, "an unknown plan_id"},
		{"provision 200", false, "created synchronously (201)"},
		{"provision no body", false, "created synchronously (201)"},
		{"provision dashboard", false, "created synchronously (201)"},
		{"provision again 201", false, "a repeated request is answered with 200"},
		{"provision no conflict", false, "Provisioning/the same id with other attributes"},
		{"async without error", true, "an asynchronous request is required"},
		{"async unwanted", true, "created synchronously (201)"},
		{"async again 200", true, "a repeated request while in progress"},
		{"async other operation", true, "a repeated request while in progress"},
		{"async blocked", true, "rejects other operations"},
		{"async bound", true, "rejects other operations"},
		{"async state", true, "created with accepts_incomplete=true"},
		{"async fails", true, "created with accepts_incomplete=true"},
		{"poll unknown", false, "no operation that succeeded"},
		{"fetch missing", false, "an instance can be fetched"},
		{"fetch other plan", false, "an instance can be fetched"},
		{"fetch unknown", false, "an unknown instance is not found"},
		{"fetch deleted", false, "a deleted instance is not found"},
		{"bind bad json", false, "Binding/a body that is not JSON"},
		{"bind no service", false, "Binding/a request without service_id"},
		{"bind no plan", false, "Binding/a request without plan_id"},
		{"bind unknown", false, "a binding of an unknown instance"},
		{"bind text", false, "a binding is created"},
		{"bind 200", false, "a binding is created"},
		{"bind again 201", false, "200 and the same credentials"},
		{"bind again other", false, "200 and the same credentials"},
		{"bind no conflict", false, "Binding/the same id with other attributes"},
		{"bind fetch other", false, "a binding can be fetched"},
		{"bind fetch unknown", false, "an unknown binding is not found"},
		{"update unknown plan", false, "an unknown plan is rejected"},
		{"update no service", false, "Updating a Service Instance/a request without service_id"},
		{"update nothing", false, "the plan can be changed"},
		{"unbind no service", false, "Unbinding/a request without service_id"},
		{"unbind again 200", false, "a deleted binding is gone"},
		{"unbind unknown 404", false, "an unknown binding is gone"},
		{"unbind fails", false, "a binding is deleted"},
		{"delete no service", false, "Deprovisioning/a request without service_id"},
		{"delete again 200", false, "a deleted instance is gone"},
		{"delete unknown 404", false, "an unknown instance is gone"},
		{"delete fails", false, "an instance is deleted"},
		{"empty description", false, "Provisioning/a request without service_id"},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			b := &toy{fault: test.fault, async: test.async}
			r := run(t, b)
			for _, result := range r.Results {
				if result.Outcome == check.Fail && strings.Contains(result.Section+"/"+result.Name, test.found) {
					if result.Reason == "" || len(result.Exchanges) == 0 {
						t.Errorf("the report does not say why: %+v", result)
					}
					return
				}
			}
			t.Errorf("not found by %q:\n%s", test.found, text(r))
		})
	}
}

// A recommendation that is not followed is a warning, not a failure.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for fault, found := range map[string]string{
		"any version": "a version that is not 2.x", "no version": "without the header",
		"no identity":  "identity is in the response",
		"text content": "sent as application/json",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := run(t, &toy{fault: fault})
			warned := false
			for _, result := range r.Results {
				warned = warned || result.Outcome == check.Warn && strings.Contains(result.Name, found)
			}
			if !r.OK() || !warned {
				t.Errorf("report is OK %v, want OK with a warning about %s:\n%s", r.OK(), found, text(r))
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := run(t, &toy{fault: "provision again 201"})
	out := text(r)
	for _, want := range []string{"FAIL  a repeated request is answered with 200", "> PUT /v2/service_instances/",
		"< 201 Created", "want 200 OK", "does NOT conform"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "hush") {
		t.Error("credentials are in the report")
	}
	var b bytes.Buffer
	var back check.Report
	if err := r.WriteJSON(&b); err != nil || json.Unmarshal(b.Bytes(), &back) != nil || back.Failed != r.Failed ||
		len(back.Results) != len(r.Results) {
		t.Errorf("JSON: %v\n%s", err, &b)
	}
	if strings.Contains(b.String(), "hush") {
		t.Error("credentials are in the JSON")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost", "ftp://x", "http://u:p@127.0.0.1:1", "http://127.0.0.1:1"} {
		if _, err := check.Run(t.Context(), check.Options{URL: address}); err == nil {
			t.Errorf("%q is accepted", address)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}
