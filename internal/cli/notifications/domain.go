package notifications

import (
	"context"
	"net/http"
	"slices"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// domainReport is what receivers find when they check mail of the service.
type domainReport struct {
	Domain   string          `json:"domain"`
	Findings []domainFinding `json:"findings"`
}

type domainFinding struct {
	Check   string     `json:"check"`
	Status  string     `json:"status"`
	Message string     `json:"message"`
	Record  *dnsRecord `json:"record,omitempty"`
}

type dnsRecord struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Show prints a line for each check, and the records to set below.
func (r *domainReport) Show(p *term.Printer) {
	paints := map[string]func(string) string{"ok": p.Good, "warning": p.Warn, "problem": p.Bad}
	t := term.Table{Heading: []string{"", "check", "found"}}
	var records []dnsRecord
	for _, f := range r.Findings {
		t.Rows = append(t.Rows, []term.Cell{{Text: f.Status, Paint: paints[f.Status]}, {Text: f.Check}, {Text: f.Message}})
		if f.Record != nil {
			records = append(records, *f.Record)
		}
	}
	p.Table(t)
	if len(records) == 0 {
		return
	}
	p.Println("")
	p.Println("Set in the DNS:")
	for _, one := range records {
		p.Printf("  %s  %s  %q", p.Bold(one.Name), one.Type, one.Value)
	}
}

func checkDomain(ctx context.Context, s *core.Session, _ core.Words, f *notifyFlags) (core.Result, error) {
	s.Say("Checking the domain of mail...")
	out := &domainReport{}
	if err := f.call(ctx, s, http.MethodGet, "/sender_domain", nil, out); err != nil {
		return nil, err
	}
	s.Say("It is %s.", s.Out.Bold(out.Domain))
	if slices.ContainsFunc(out.Findings, func(one domainFinding) bool { return one.Status == "problem" }) {
		return out, &core.ExitError{Code: core.ExitFailure}
	}
	return out, nil
}
