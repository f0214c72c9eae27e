package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type checkup struct {
	Findings []core.Finding `json:"findings"`
}

func (c *checkup) Show(p *term.Printer) {
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

func checkMachine(ctx context.Context, s *core.Session, _ core.Words, f *core.DoctorOptions) (core.Result, error) {
	out := &checkup{}
	if s.Env.Machine != nil {
		out.Findings = s.Env.Machine(ctx, *f)
	}
	if f.Engine == "kubernetes" || f.Engine == "" && s.Env.Getenv("INGOT_ENGINE") == "kubernetes" {
		if slices.ContainsFunc(out.Findings, func(one core.Finding) bool { return one.State == core.FindingFail }) {
			return out, &core.ExitError{Code: core.ExitFailure}
		}
		return out, nil
	}
	if dir := s.Env.ServerDir(); dir != "" {
		out.Findings = append(out.Findings, checkLocal(dir))
	}
	out.Findings = append(out.Findings, checkTarget(ctx, s))
	return out, nil
}

func checkLocal(dir string) core.Finding {
	f := core.Finding{
		Name: "server on this machine", State: core.FindingNote,
		Get: "none is running in " + dir + ": 'ingot up --demo' starts one",
	}
	if local, err := config.FindLocal(dir); err == nil {
		f = core.Finding{Name: f.Name, State: core.FindingOK, Found: local.API + " (data in " + local.Dir + ")"}
	}
	return f
}

func checkTarget(ctx context.Context, s *core.Session) core.Finding {
	f := core.Finding{Name: "target of the client", Found: s.Config.API, State: core.FindingOK}
	if s.Config.API == "" {
		f.State, f.Get = core.FindingNote, "none yet: log in with 'login -a URL'"
		if s.Env.ServerDir() != "" {
			f.Get = "none yet: the first command takes the server on this machine, or 'login -a URL' another"
		}
		return f
	}
	c := client.New(s.Config.API, core.Trust(s.Config), client.Tokens{})
	defer c.Close()
	if _, err := c.Discover(ctx); err != nil {
		f.State, f.Get = core.FindingMissing, strings.TrimSpace(err.Error())
	}
	return f
}

func doctorCommands() []*core.Command {
	return core.InGroup(core.GroupOther,
		core.Entry("doctor", "[--engine kubernetes]", "Check a machine or a cluster for what Ingot needs", core.NeedsNothing,
			checkMachine,
			"",
			"--engine kubernetes --kubernetes-kubeconfig ~/.kube/config --kubernetes-image "+
				"registry.example.com/ingot/stack:0.1.0").
			Explained("With --engine kubernetes it checks a cluster as a server would use it, with the values of the INGOT_ "+
				"environment variables where flags are missing. It starts Pods and removes them. The exit status is 1 if "+
				"something does not work."),
	)
}
