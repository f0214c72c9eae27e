package apps

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// Summary is the status of an app, as the commands app and push show it.
type Summary struct {
	Name       string           `json:"name"`
	GUID       string           `json:"guid"`
	State      string           `json:"requested_state"`
	Routes     []string         `json:"routes"`
	URLs       []string         `json:"urls"`
	Uploaded   time.Time        `json:"last_uploaded,omitzero"`
	Stack      string           `json:"stack,omitempty"`
	Buildpacks []string         `json:"buildpacks,omitempty"`
	Processes  []processSummary `json:"processes"`
	// Deployment is the app's active deployment.
	Deployment *deploymentSummary `json:"deployment,omitempty"`

	showRequests bool
}

type processSummary struct {
	Type      string            `json:"type"`
	Command   string            `json:"command,omitempty"`
	Sidecars  []string          `json:"sidecars"`
	Running   int               `json:"running"`
	Wanted    int               `json:"instances"`
	MemoryMB  int64             `json:"memory_in_mb"`
	Instances []instanceSummary `json:"instance_details"`

	limits []string // the sidecars with their limits
	now    time.Time
}

type instanceSummary struct {
	Index   int     `json:"index"`
	State   string  `json:"state"`
	Since   string  `json:"since,omitempty"`
	CPU     float64 `json:"cpu"`
	Memory  int64   `json:"memory"`
	MemMax  int64   `json:"memory_quota"`
	Disk    int64   `json:"disk"`
	DiskMax int64   `json:"disk_quota"`
	Details string  `json:"details,omitempty"`

	Members []cfapi.Member `json:"members,omitempty"`

	Requests *cfapi.Requests `json:"router,omitempty"`
}

func (a *Summary) Show(p *term.Printer) {
	p.Println("")
	p.Pairs(
		[2]string{"name", p.Bold(a.Name)}, [2]string{"requested state", p.State(a.State)},
		[2]string{"routes", strings.Join(a.URLs, ", ")}, [2]string{"last uploaded", core.Date(a.Uploaded)},
		[2]string{"stack", a.Stack}, [2]string{"buildpacks", strings.Join(a.Buildpacks, ", ")},
	)
	for _, pr := range a.Processes {
		p.Println("")
		rows := [][2]string{{"type", p.Bold(pr.Type)}, {"sidecars", strings.Join(pr.limits, ", ")},
			{"instances", fmt.Sprintf("%d/%d", pr.Running, pr.Wanted)}}
		rows = append(rows, [2]string{"memory usage", strconv.FormatInt(pr.MemoryMB, 10) + "M"})
		if pr.Command != "" {
			rows = append(rows, [2]string{"start command", pr.Command})
		}
		p.Pairs(rows...)
		if len(pr.Instances) == 0 {
			p.Println("There are no running instances of this process.")
			continue
		}
		t := term.Table{Heading: []string{"", "state", "since", "cpu", "memory", "disk", "details"}}
		for _, i := range pr.Instances {
			t.Rows = append(t.Rows, []term.Cell{
				{Text: "#" + strconv.Itoa(i.Index)}, {Text: i.State, Paint: p.State}, {Text: core.ShownTime(i.Since)},
				{Text: fmt.Sprintf("%.1f%%", i.CPU*100)},
				{Text: term.Size(i.Memory) + " of " + term.Size(i.MemMax)},
				{Text: term.Size(i.Disk) + " of " + term.Size(i.DiskMax)}, {Text: i.Details},
			})
		}
		p.Table(t)
		pr.showMembers(p)
		if a.showRequests {
			pr.showRequests(p)
		}
	}
	a.Deployment.Show(p)
}

// showRequests shows the router's request counts.
func (pr *processSummary) showRequests(p *term.Printer) {
	t := term.Table{Heading: []string{"", "requests", "active", "2xx", "3xx", "4xx", "5xx", "p50", "p95", "p99",
		"received", "sent"}}
	for _, i := range pr.Instances {
		r := i.Requests
		if r == nil {
			continue
		}
		row := []term.Cell{{Text: "#" + strconv.Itoa(i.Index)}}
		for _, n := range []int64{r.Requests, r.Active, r.Status["2xx"], r.Status["3xx"], r.Status["4xx"], r.Status["5xx"]} {
			row = append(row, term.Cell{Text: strconv.FormatInt(n, 10)})
		}
		for _, ms := range []float64{r.Latency.P50, r.Latency.P95, r.Latency.P99} {
			cell := term.Cell{Text: "-"}
			if r.Requests > 0 {
				cell.Text = strconv.FormatFloat(ms, 'f', -1, 64) + "ms"
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, append(row, term.Cell{Text: term.Size(r.Received)}, term.Cell{Text: term.Size(r.Sent)}))
	}
	p.Println("")
	if len(t.Rows) == 0 {
		p.Println("No request statistics yet.")
		return
	}
	p.Table(t)
}

// Summarize collects an app's status with concurrent requests.
func Summarize(ctx context.Context, s *core.Session, app cfapi.App) (*Summary, error) {
	a := &Summary{Name: app.Name, GUID: app.GUID, State: strings.ToLower(app.State), Routes: []string{}, URLs: []string{}}
	var routes []cfapi.Route
	var droplet cfapi.Droplet
	err := core.Concurrently(
		func() (err error) {
			a.Processes, err = summarizeProcesses(ctx, s, app.GUID)
			return err
		},
		func() (err error) {
			a.Deployment, err = activeDeployment(ctx, s, app)
			return err
		},
		core.Into(ctx, s, &routes, "/v3/apps/"+app.GUID+"/routes", nil),
		func() error {
			err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/droplets/current", nil, &droplet)
			if client.Status(err) == 404 {
				return nil // nothing was pushed yet
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		a.Routes, a.URLs = append(a.Routes, r.URL), append(a.URLs, s.Address(r))
	}
	a.Uploaded, a.Stack = droplet.CreatedAt, droplet.Stack
	for _, b := range droplet.Buildpacks {
		a.Buildpacks = append(a.Buildpacks, strings.TrimSpace(b.Name+" "+b.Version))
	}
	return a, nil
}

func summarizeProcesses(ctx context.Context, s *core.Session, app string) ([]processSummary, error) {
	processes, err := client.List[cfapi.Process](ctx, s.API, "/v3/apps/"+app+"/processes", nil)
	if err != nil {
		return nil, err
	}
	sortProcesses(processes, func(p cfapi.Process) string { return p.Type })
	all := make([]processSummary, len(processes))
	var work []func() error
	for i, pr := range processes {
		work = append(work, func() (err error) {
			all[i], err = summarizeProcess(ctx, s, pr)
			return err
		})
	}
	return all, core.Concurrently(work...)
}

func summarizeProcess(ctx context.Context, s *core.Session, pr cfapi.Process) (processSummary, error) {
	out := processSummary{now: s.Env.Now(), Type: pr.Type, Wanted: pr.Instances, MemoryMB: pr.MemoryMB,
		Sidecars: []string{}, Instances: []instanceSummary{}}
	var single cfapi.Process
	var sidecars []cfapi.Sidecar
	var stats []cfapi.Stat
	err := core.Concurrently(
		// Lists leave the command out; only a request for the process returns it.
		func() error { return s.API.Get(ctx, "/v3/processes/"+pr.GUID, nil, &single) },
		core.Into(ctx, s, &sidecars, "/v3/processes/"+pr.GUID+"/sidecars", nil),
		func() (err error) {
			stats, err = InstanceStats(ctx, s, pr.GUID)
			return err
		})
	if err != nil {
		return out, err
	}
	out.Command, out.Running = single.Command, running(stats)
	for _, sc := range sidecars {
		out.Sidecars = append(out.Sidecars, sc.Name)
		out.limits = append(out.limits, sidecarText(sc))
	}
	for _, st := range stats {
		i := instanceSummary{
			Index: st.Index, State: strings.ToLower(st.State), CPU: st.Usage.CPU, Memory: st.Usage.Mem, MemMax: st.MemQuota,
			Disk: st.Usage.Disk, DiskMax: st.DiskQuota, Details: st.Details, Requests: st.Router, Members: st.Members,
		}
		if st.Uptime > 0 || st.State == "RUNNING" {
			i.Since = s.Env.Now().Add(-time.Duration(st.Uptime) * time.Second).UTC().Format(time.RFC3339)
		}
		out.Instances = append(out.Instances, i)
	}
	return out, nil
}

type appFlags struct {
	GUID     bool   `long:"guid" description:"Show only the guid"`
	Requests bool   `long:"requests" description:"Also show request counts, status codes and latencies per instance"`
	History  string `long:"history" value-name:"1h|24h|7d|30d" optional:"yes" optional-value:"1h" description:"Show what the app did over time: in the last hour, or in RANGE, such as --history 30d"`
}

func showApp(ctx context.Context, s *core.Session, w core.Words, f *appFlags) (core.Result, error) {
	name, span, err := f.nameAndRange(w["APP"], w["RANGE"])
	if err != nil {
		return nil, err
	}
	if !f.GUID {
		s.Doing("Showing health and status of app %s", name)
	}
	app, err := s.App(ctx, name)
	if err != nil {
		return nil, err
	}
	if f.GUID {
		return &core.Text{Key: "guid", Value: app.GUID}, nil
	}
	if span != "" {
		return showHistory(ctx, s, app, span)
	}
	found, err := Summarize(ctx, s, app)
	if err != nil {
		return nil, err
	}
	found.showRequests = f.Requests
	return found, nil
}

// OrNilToo keeps a nil pointer from becoming a non-nil result, and keeps a result
// that can be shown despite an error.
func OrNilToo(r *Summary, err error) (core.Result, error) {
	if r == nil {
		return nil, err
	}
	return r, err
}

func appCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("app", "APP [RANGE]", "Show an app's status", core.NeedsSpace, showApp, "my-app",
			"my-app --requests", "my-app --history", "my-app --history 24h", "my-app --guid"),
	)
}
