package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/cli/client"
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
func healthChecks(what string, which func(checkedProcess) healthCheck) func(context.Context, *session, words, *noFlags) (result, error) {
	return func(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
		s.doing("Getting "+what+" type for app %s", w["APP"])
		app, err := s.app(ctx, w["APP"])
		if err != nil {
			return nil, err
		}
		found, err := client.List[checkedProcess](ctx, s.api, "/v3/apps/"+app.GUID+"/processes", nil)
		if err != nil {
			return nil, err
		}
		out := &listing[checkRow]{key: "processes", heading: []string{"process", "health check", "endpoint (for http)", "invocation timeout"}, cells: func(r checkRow) []string {
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
			out.rows = append(out.rows, row)
		}
		return out, nil
	}
}

type setCheckFlags struct {
	Process  string `long:"process" value-name:"TYPE" default:"web" description:"Process type"`
	Endpoint string `long:"endpoint" value-name:"PATH" default:"/" description:"Path that an http check requests"`
	Timeout  int    `long:"invocation-timeout" value-name:"SECONDS" description:"Seconds that one check may take"`
}

func setHealthCheck(ctx context.Context, s *session, w words, f *setCheckFlags) (result, error) {
	kind, data := w["TYPE"], map[string]any{}
	switch kind {
	case "http":
		data["endpoint"] = f.Endpoint
	case "port", "process":
		if f.Endpoint != "/" {
			return nil, &usage{"--endpoint needs the type http", "set-health-check"}
		}
	default:
		return nil, &usage{fmt.Sprintf("%q is not a type of health check. Valid types: http, port, process", kind), "set-health-check"}
	}
	if f.Timeout > 0 {
		data["invocation_timeout"] = f.Timeout
	}
	s.doing("Updating health check type for app %s process %s", w["APP"], f.Process)
	app, err := s.app(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	var process checkedProcess
	err = s.api.Get(ctx, "/v3/apps/"+app.GUID+"/processes/"+url.PathEscape(f.Process), nil, &process)
	if client.Status(err) == http.StatusNotFound {
		return nil, &problem{What: fmt.Sprintf("App %s has no process %s.", app.Name, f.Process), Try: fmt.Sprintf("'%s get-health-check %s' lists them", s.w.Program, app.Name), cause: err}
	}
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodPatch, "/v3/processes/"+process.GUID, map[string]any{"health_check": map[string]any{"type": kind, "data": data}}); err != nil {
		return nil, err
	}
	out, err := s.done("app", app.Name, "process", f.Process, "type", kind)
	if app.State == "STARTED" {
		s.say("TIP: Takes effect after a restart: '%s restart %s'.", s.w.Program, app.Name)
	}
	return out, err
}

func healthCheckCommands() []*command {
	return inGroup(groupApps,
		entry("get-health-check", "APP", "Show the health checks of an app", aSpace, healthChecks("health check", func(p checkedProcess) healthCheck { return p.Health }), "my-app"),
		entry("set-health-check", "APP TYPE [--process TYPE] [--endpoint PATH]", "Set the health check of an app's process", aSpace, setHealthCheck, "my-app http --endpoint /health", "my-app process --process worker"),
		entry("get-readiness-health-check", "APP", "Show the readiness health checks of an app", aSpace, healthChecks("readiness health check", func(p checkedProcess) healthCheck { return p.Readiness }), "my-app"),
	)
}
