package apps

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

// runningBody is the short form of an instance.
type runningBody struct {
	Index int                    `json:"index"`
	State platform.InstanceState `json:"state"`
	Since int64                  `json:"since"` // Unix time
}

// RunningOf returns one row for each wanted instance of each process.
func RunningOf(req *rest.Request, items []*platform.Process) (map[string][]runningBody, error) {
	rows, err := actions.InstancesOf(req.Tx, items)
	if err != nil {
		return nil, err
	}
	changed, err := changedAt(req, items)
	if err != nil {
		return nil, err
	}
	out := map[string][]runningBody{}
	for _, process := range items {
		for i, row := range rows[process.GUID] {
			b := runningBody{Index: i, State: platform.InstanceDown}
			switch {
			case row == nil:
				b.Since = changed[process.GUID].Unix()
			case row.State == platform.InstanceStopping: // not a state of this list
				b.Since = row.Since.Unix()
			default:
				b.State, b.Since = row.State, row.Since.Unix()
			}
			out[process.GUID] = append(out[process.GUID], b)
		}
	}
	return out, nil
}

// changedAt returns when each process or its app was last changed: since then instances that
// do not exist are missing.
func changedAt(req *rest.Request, items []*platform.Process) (map[string]time.Time, error) {
	apps, err := appsOf(req, items)
	out := map[string]time.Time{}
	for _, process := range items {
		out[process.GUID] = slices.MaxFunc([]time.Time{process.Created, process.Updated, apps[process.AppGUID].Updated},
			time.Time.Compare)
	}
	return out, err
}

// Seconds returns the whole seconds since a time; 0 without one.
func Seconds(since time.Time) int64 {
	if since.IsZero() {
		return 0
	}
	return int64(max(0, time.Since(since)) / time.Second)
}

func processInstances(req *rest.Request, process *platform.Process) (any, error) {
	rows, err := RunningOf(req, []*platform.Process{process})
	list := rows[process.GUID]
	if list == nil {
		list = []runningBody{}
	}
	return map[string]any{"resources": list, "links": rest.Links{"self": rest.Href(req.Base, req.HTTP.URL.Path),
		"process": req.Link("/processes/", rest.Escape(process.GUID))}}, err
}

// processStats shows one row for each desired instance, running or not, because cf
// counts the rows.
func (a *API) processStats(w http.ResponseWriter, r *http.Request) error {
	var process *platform.Process
	var segment *string
	rows, err := rest.View(a.Server, r, func(req *rest.Request) (rows []*platform.Instance, err error) {
		if process, err = processOf(req); err != nil {
			return nil, err
		}
		if segment, err = segmentFor(req.Tx, process.AppGUID); err != nil {
			return nil, err
		}
		all, err := actions.InstancesOf(req.Tx, []*platform.Process{process})
		return all[process.GUID], err
	})
	if err != nil {
		return err
	}
	known := slices.DeleteFunc(slices.Clone(rows), func(row *platform.Instance) bool { return row == nil })
	usage := a.Runtime.Usage(r.Context(), known)
	var traffic map[string]InstanceTraffic
	if a.Traffic != nil {
		guids := make([]string, len(known))
		for i, row := range known {
			guids[i] = row.GUID
		}
		traffic = a.Traffic.Traffic(r.Context(), guids...)
	}
	out := make([]map[string]any, 0, len(rows))
	for i, row := range rows {
		b := a.statsRow(process, i, row, usage, traffic)
		b["isolation_segment"] = segment
		out = append(out, b)
	}
	return web.Answer(w, http.StatusOK, map[string]any{"resources": out}, nil)
}

func (a *API) statsRow(process *platform.Process, index int, row *platform.Instance, usage map[string]InstanceUsage,
	traffic map[string]InstanceTraffic) map[string]any {
	b := map[string]any{
		"type": process.Type, "index": index, "state": platform.InstanceDown, "routable": nil, "uptime": 0, "details": nil,
	}
	if row == nil {
		return b
	}
	b["state"], b["details"] = row.State, rest.OrNull(row.Details)
	if row.State == platform.InstanceDown || row.State == platform.InstanceCrashed {
		b["uptime"] = Seconds(row.Since)
		if row.State == platform.InstanceDown {
			return b
		}
	}
	ports := []map[string]any{}
	for _, port := range row.Ports {
		ports = append(ports, map[string]any{
			"external": port.Listens, "internal": port.Inside, "external_tls_proxy_port": nil, "internal_tls_proxy_port": nil,
		})
	}
	used := map[string]any{}
	if u, ok := usage[row.GUID]; ok {
		used = map[string]any{
			"time": u.Time.UTC().Format(time.RFC3339), "cpu": u.CPU, "cpu_entitlement": u.CPU, "mem": u.Memory, "disk": u.Disk,
			"log_rate": u.LogRate,
		}
		b["log_lines_lost"] = u.LogLost // an extension of Ingot, as members
		if len(u.Members) > 0 {
			b["members"] = presentMembers(u.Members)
		}
	}
	for k, v := range map[string]any{
		"instance_guid": row.GUID, "routable": row.State == platform.InstanceRunning && row.Ready, "host": row.Host,
		"instance_internal_ip": row.InternalIP,
		"uptime":               Seconds(row.Since), "mem_quota": int64(process.MemoryMB) << 20,
		"disk_quota":     int64(process.DiskMB) << 20,
		"log_rate_limit": process.LogRate, "fds_quota": actions.DefaultFiles, "instance_ports": ports, "usage": used,
	} {
		b[k] = v
	}
	if traffic != nil {
		b["router"] = presentTraffic(traffic[row.GUID])
	}
	return b
}

// presentTraffic presents the figures of the router for an instance, an extension of
// Ingot.
func presentTraffic(t InstanceTraffic) map[string]any {
	millis := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	status := map[string]int64{"none": t.Classes[0]}
	for class := 1; class < len(t.Classes); class++ {
		status[strconv.Itoa(class)+"xx"] = t.Classes[class]
	}
	return map[string]any{
		"requests": t.Requests, "connections": t.Connections, "active": t.Active, "status": status,
		"bytes_received": t.Received, "bytes_sent": t.Sent,
		"latency_ms": map[string]float64{"mean": millis(t.Mean), "p50": millis(t.P50), "p95": millis(t.P95),
			"p99": millis(t.P99)},
	}
}

func (a *API) restartInstance(w http.ResponseWriter, r *http.Request) error {
	index, err := strconv.Atoi(web.Param(r, "index"))
	if err != nil || index < 0 {
		return fault.New(fault.NotFound, "Instance not found")
	}
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		process, app, err := processFor(req, platform.Operate)
		if err != nil {
			return nil, err
		}
		return nil, a.Platform.RestartInstance(req.Tx, req.Caller.Actor(), app, process, index)
	})
}

// segmentFor returns the name of the isolation segment of an app's instances, nil for
// the shared one.
func segmentFor(tx platform.Tx, appGUID string) (*string, error) {
	app, err := tx.Apps().Get(appGUID)
	if err != nil {
		return nil, err
	}
	space, err := tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return nil, err
	}
	org, err := tx.Organizations().Get(space.OrgGUID)
	if err != nil {
		return nil, err
	}
	name, err := actions.SegmentOf(tx, space, org)
	return rest.OrNull(name), err
}
