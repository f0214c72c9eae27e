package cli

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

// Finding is the result of one check of doctor.
type Finding struct {
	Name string `json:"name"`
	// Found is what was found; it is empty when the thing is missing.
	Found string `json:"found,omitempty"`
	// State is one of the constants below.
	State string `json:"state"`
	// Get says how to install what is missing, or what its absence means.
	Get string `json:"get,omitempty"`
}

// The states of findings.
const (
	FindingOK      = "ok"
	FindingMissing = "missing"
	FindingNote    = "note"
	FindingWarn    = "warn" // of a cluster
	FindingFail    = "fail"
)

// DoctorOptions are the flags of doctor. Empty ones have the values of the environment
// variables of 'ingot up'.
type DoctorOptions struct {
	Engine         string `long:"engine" value-name:"ENGINE" description:"kubernetes: check a cluster instead of this machine, step by step, with Pods that are deleted afterwards"`
	Namespace      string `long:"kubernetes-namespace" value-name:"NAME" description:"Namespace of the Pods of apps"`
	Image          string `long:"kubernetes-image" value-name:"IMAGE" description:"Stack image of app instances"`
	Kubeconfig     string `long:"kubernetes-kubeconfig" value-name:"FILE" description:"Kubeconfig of the cluster (default: the service account of the Pod)"`
	UserNamespaces string `long:"kubernetes-user-namespaces" value-name:"auto|on|off" description:"User namespaces of Pods"`
	DatabaseURL    string `long:"database-url" value-name:"URL" description:"PostgreSQL of the servers"`
	BlobURL        string `long:"blob-url" value-name:"URL" description:"Bucket of the servers"`
}

type checkup struct {
	Findings []Finding `json:"findings"`
}

func (c *checkup) show(p *term.Printer) {
	t := term.Table{Heading: []string{"", "what", "found"}}
	for _, f := range c.Findings {
		t.Rows = append(t.Rows, []term.Cell{{Text: f.State, Paint: p.State}, {Text: f.Name}, {Text: or(f.Found, "-")}})
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
	f := Finding{Name: "server on this machine", State: FindingNote, Get: "none is running in " + or(or(s.w.Getenv("INGOT_DATA_DIR"), s.w.DataDir), "a known directory") + ": 'ingot up --demo' starts one"}
	if local, err := config.FindLocal(or(s.w.Getenv("INGOT_DATA_DIR"), s.w.DataDir)); err == nil {
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
