package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

type checkup struct {
	Findings []Finding `json:"findings"`
}

func (c *checkup) show(p *term.Printer) {
	t := term.Table{Heading: []string{"", "what", "found"}}
	for _, f := range c.Findings {
		t.Rows = append(t.Rows, []term.Cell{{Text: f.State, Paint: p.State}, {Text: f.Name}, {Text: cmp.Or(f.Found, "-")}})
	}
	p.Table(t)
	first := true
	for _, f := range c.Findings {
		if f.Get == "" {
			continue
		}
		if first {
			p.Println("")
			first = false
		}
		p.Println(f.Name + ": " + f.Get)
	}
}

type doctorCommand struct{ DoctorOptions }

func (c *doctorCommand) run(ctx context.Context, s *session) (result, error) {
	out := &checkup{}
	if s.w.Machine != nil {
		out.Findings = s.w.Machine(ctx, c.DoctorOptions)
	}
	if c.Engine == "kubernetes" || c.Engine == "" && s.w.Getenv("INGOT_ENGINE") == "kubernetes" {
		if slices.ContainsFunc(out.Findings, func(f Finding) bool { return f.State == FindingFail }) {
			return out, &exitError{ExitFailure}
		}
		return out, nil
	}
	out.Findings = append(out.Findings, s.checkLocal(), s.checkTarget(ctx))
	return out, nil
}

func (s *session) checkLocal() Finding {
	f := Finding{Name: "server on this machine", State: FindingNote, Get: "none is running in " + cmp.Or(cmp.Or(s.w.Getenv("INGOT_DATA_DIR"), s.w.DataDir), "a known directory") + ": 'ingot up --demo' starts one"}
	if local, err := config.FindLocal(cmp.Or(s.w.Getenv("INGOT_DATA_DIR"), s.w.DataDir)); err == nil {
		f = Finding{Name: f.Name, State: FindingOK, Found: local.API + " (data in " + local.Dir + ")"}
	}
	return f
}

func (s *session) checkTarget(ctx context.Context) Finding {
	f := Finding{Name: "target of the client", Found: s.cfg.API, State: FindingOK}
	if s.cfg.API == "" {
		f.State, f.Get = FindingNote, "none yet: the first command takes the server on this machine, or 'login -a URL' another"
		return f
	}
	c := client.New(s.cfg.API, s.cfg.SkipSSLValidation, client.Tokens{})
	defer c.Close()
	if _, err := c.Discover(ctx); err != nil {
		f.State, f.Get = FindingMissing, strings.TrimSpace(err.Error())
	}
	return f
}
