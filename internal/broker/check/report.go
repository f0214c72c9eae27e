package check

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Outcome is the result of one check.
type Outcome string

// The outcomes. A warning is about what the specification recommends.
const (
	Pass Outcome = "pass"
	Warn Outcome = "warn"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// Exchange is a request and its response, without passwords.
type Exchange struct {
	Sent string `json:"sent"`
	Got  string `json:"got"`
}

// Result is the result of one check.
type Result struct {
	// Section is the heading in the specification.
	Section string `json:"section"`
	// Subject is the tested offering and plan.
	Subject string  `json:"subject,omitempty"`
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	// Reason says why it did not pass.
	Reason    string     `json:"reason,omitempty"`
	Exchanges []Exchange `json:"exchanges,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	URL     string    `json:"url"`
	Version string    `json:"version"` // of the API
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Results []Result  `json:"results"`
	Passed  int       `json:"passed"`
	Warned  int       `json:"warned"`
	Failed  int       `json:"failed"`
	Skipped int       `json:"skipped"`
}

// OK reports whether no check failed.
func (r *Report) OK() bool { return r.Failed == 0 }

func (r *Report) add(result Result) {
	switch result.Outcome {
	case Pass:
		r.Passed++
	case Warn:
		r.Warned++
	case Fail:
		r.Failed++
	case Skip:
		r.Skipped++
	}
	r.Results = append(r.Results, result)
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Write writes the report as text, with requests and responses of the checks that
// did not pass.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "Open Service Broker API %s: %s\n", r.Version, r.URL)
	heading := ""
	for _, result := range r.Results {
		title := result.Section
		if result.Subject != "" {
			title = result.Subject + ": " + title
		}
		if title != heading {
			heading = title
			fmt.Fprintf(w, "\n%s\n", heading)
		}
		fmt.Fprintf(w, "  %s  %s\n", strings.ToUpper(string(result.Outcome)), result.Name)
		if result.Reason != "" {
			fmt.Fprintf(w, "        %s\n", result.Reason)
		}
		if result.Outcome == Pass || result.Outcome == Skip {
			continue
		}
		for _, x := range result.Exchanges {
			fmt.Fprintf(w, "        > %s\n        < %s\n", x.Sent, x.Got)
		}
	}
	verdict := "conforms"
	if !r.OK() {
		verdict = "does NOT conform"
	}
	fmt.Fprintf(w, "\n%d passed, %d warnings, %d failed, %d skipped in %.1f s: the broker %s\n", r.Passed, r.Warned,
		r.Failed, r.Skipped, r.Seconds, verdict)
}
