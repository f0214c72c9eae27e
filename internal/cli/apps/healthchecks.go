package apps

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// healthCheck is a liveness or readiness check of a process.
type healthCheck struct {
	Type string `json:"type"`
	Data struct {
		Endpoint *string `json:"endpoint"`
		Timeout  *int    `json:"invocation_timeout"`
	} `json:"data"`
}

type checkedProcess struct {
	Type      string      `json:"type"`
	GUID      string      `json:"guid"`
	Health    healthCheck `json:"health_check"`
	Readiness healthCheck `json:"readiness_health_check"`
}

type checkRow struct {
	Process  string `json:"process"`
	Check    string `json:"health_check"`
	Endpoint string `json:"endpoint,omitempty"`
	Timeout  int    `json:"invocation_timeout"`
}

// healthChecks shows the checks of an app's processes.
func healthChecks(what string, which func(checkedProcess) healthCheck) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
		s.Doing("Getting "+what+" type for app %s", w["APP"])
		app, err := s.App(ctx, w["APP"])
		if err != nil {
			return nil, err
		}
		found, err := client.List[checkedProcess](ctx, s.API, "/v3/apps/"+app.GUID+"/processes", nil)
		if err != nil {
			return nil, err
		}
		out := &core.Listing[checkRow]{Key: "processes", Heading: []string{"process", "health check", "endpoint (for http)",
			"invocation timeout"}, Cells: func(r checkRow) []string {
			return []string{r.Process, r.Check, r.Endpoint, strconv.Itoa(r.Timeout)}
		}}
		for _, p := range found {
			check := which(p)
			row := checkRow{Process: p.Type, Check: check.Type, Timeout: 1}
			if check.Type == "http" && check.Data.Endpoint != nil {
				row.Endpoint = *check.Data.Endpoint
			}
			if check.Data.Timeout != nil {
				row.Timeout = *check.Data.Timeout
			}
			out.Rows = append(out.Rows, row)
		}
		return out, nil
	}
}

type setCheckFlags struct {
	Process  string `long:"process" value-name:"TYPE" default:"web" description:"Process type"`
	Endpoint string `long:"endpoint" value-name:"PATH" default:"/" description:"Path that an http check requests"`
	Timeout  int    `long:"invocation-timeout" value-name:"SECONDS" description:"Seconds that one check may take"`
}

func setHealthCheck(ctx context.Context, s *core.Session, w core.Words, f *setCheckFlags) (core.Result, error) {
	kind, data := w["TYPE"], map[string]any{}
	switch kind {
	case "http":
		data["endpoint"] = f.Endpoint
	case "port", "process":
		if f.Endpoint != "/" {
			return nil, core.UsageError("--endpoint needs the type http")
		}
	default:
		return nil, core.UsageError(fmt.Sprintf("%q is not a type of health check. Valid types: http, port, process", kind))
	}
	if f.Timeout > 0 {
		data["invocation_timeout"] = f.Timeout
	}
	s.Doing("Updating health check type for app %s process %s", w["APP"], f.Process)
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	var process checkedProcess
	err = s.API.Get(ctx, "/v3/apps/"+app.GUID+"/processes/"+url.PathEscape(f.Process), nil, &process)
	if client.Status(err) == http.StatusNotFound {
		return nil, &core.Problem{What: fmt.Sprintf("App %s has no process %s.", app.Name, f.Process),
			Try: fmt.Sprintf("'%s get-health-check %s' lists them", s.Env.Program, app.Name), Err: err}
	}
	if err != nil {
		return nil, err
	}
	if err := s.Send(ctx, http.MethodPatch, "/v3/processes/"+process.GUID,
		map[string]any{"health_check": map[string]any{"type": kind, "data": data}}); err != nil {
		return nil, err
	}
	out, err := s.Done("app", app.Name, "process", f.Process, "type", kind)
	if app.State == "STARTED" {
		s.Say("TIP: Takes effect after a restart: '%s restart %s'.", s.Env.Program, app.Name)
	}
	return out, err
}

func healthCheckCommands() []*core.Command {
	return core.Last(core.InGroup(core.GroupApps,
		core.Entry("get-health-check", "APP", "Show the health checks of an app", core.NeedsSpace,
			healthChecks("health check", func(p checkedProcess) healthCheck { return p.Health }), "my-app"),
		core.Entry("set-health-check", "APP TYPE [--process TYPE] [--endpoint PATH]",
			"Set the health check of an app's process", core.NeedsSpace, setHealthCheck, "my-app http --endpoint /health",
			"my-app process --process worker"),
		core.Entry("get-readiness-health-check", "APP", "Show the readiness health checks of an app", core.NeedsSpace,
			healthChecks("readiness health check", func(p checkedProcess) healthCheck { return p.Readiness }), "my-app"),
	))
}
