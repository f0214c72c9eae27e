package api

import (
	"net/http"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// runningBody is an instance in short.
type runningBody struct {
	Index int                    `json:"index"`
	State platform.InstanceState `json:"state"`
	Since int64                  `json:"since"` // Unix time
}

// runningOf returns one row for each wanted instance of each process.
func runningOf(p *presenter, items []*platform.Process) (map[string][]runningBody, error) {
	rows, err := instanceRows(p.tx, items)
	if err != nil {
		return nil, err
	}
	out := map[string][]runningBody{}
	for _, process := range items {
		for i, row := range rows[process.GUID] {
			b := runningBody{Index: i, State: platform.InstanceDown}
			if row != nil && row.State != platform.InstanceStopping { // which is no word of this list
				b.State = row.State
				if !row.Since.IsZero() {
					b.Since = row.Since.Unix()
				}
			}
			out[process.GUID] = append(out[process.GUID], b)
		}
	}
	return out, nil
}

func seconds(now, since time.Time) int64 {
	if since.IsZero() {
		return 0
	}
	return int64(max(0, now.Sub(since)) / time.Second)
}

// instanceRows returns the instances of processes by index; nil stands for one
// that is wanted and not there. Those of a stopped app are wanted as soon as it
// starts, and are down until then, as clients expect.
func instanceRows(tx platform.Tx, items []*platform.Process) (map[string][]*platform.Instance, error) {
	found, _, err := tx.Instances().List(platform.Query{Where: []platform.Cond{platform.InStrings("process_guid", guidsOf(items, func(p *platform.Process) string { return p.GUID }))}})
	if err != nil {
		return nil, err
	}
	out := map[string][]*platform.Instance{}
	version := map[string]string{}
	for _, process := range items {
		out[process.GUID] = make([]*platform.Instance, process.Instances)
		version[process.GUID] = process.Version
	}
	rolling, err := deploying(tx, items)
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		rows := out[one.ProcessGUID]
		if one.Index >= len(rows) {
			continue
		}
		if rolling[one.ProcessGUID] {
			rows[one.Index] = inService(rows[one.Index], one, version[one.ProcessGUID])
			continue
		}
		if one.Version == version[one.ProcessGUID] {
			rows[one.Index] = one
			continue
		}
		// One of an older version is about to go, even if nobody has told it
		// yet. As RUNNING or CRASHED it would tell a client that the restart it
		// has just asked for is over.
		if gone := one.State == platform.InstanceCrashed || one.State == platform.InstanceDown; !gone && rows[one.Index] == nil {
			going := *one
			going.State = platform.InstanceStopping
			rows[one.Index] = &going
		}
	}
	return out, nil
}

// deploying are the processes, by guid, whose instances a deployment replaces.
func deploying(tx platform.Tx, items []*platform.Process) (map[string]bool, error) {
	var apps []string
	for _, process := range items {
		if process.Type == platform.WebProcess {
			apps = append(apps, process.AppGUID)
		}
	}
	out := map[string]bool{}
	if len(apps) == 0 {
		return out, nil
	}
	active, _, err := tx.Deployments().List(platform.Where("status", platform.DeploymentActive).And(platform.InStrings("app_guid", apps)))
	for _, d := range active {
		out[d.AppGUID] = true // which is the guid of the web process
	}
	return out, err
}

// inService is the one of two instances at an index that does the work, while
// one replaces the other: one that runs, and the newer if both do.
func inService(x, y *platform.Instance, version string) *platform.Instance {
	worth := func(i *platform.Instance) (n int) {
		switch {
		case i == nil:
			return -1
		case i.State == platform.InstanceRunning:
			n = 4
		case i.State != platform.InstanceStopping:
			n = 2
		}
		if i.Version == version {
			n++
		}
		return n
	}
	if worth(y) > worth(x) {
		return y
	}
	return x
}

// InstanceAt returns the instance that counts at an index of a process, as in
// its stats; nil if there is none.
func InstanceAt(tx platform.Tx, process *platform.Process, index int) (*platform.Instance, error) {
	rows, err := instanceRows(tx, []*platform.Process{process})
	if all := rows[process.GUID]; err == nil && index >= 0 && index < len(all) {
		return all[index], nil
	}
	return nil, err
}

func (a *API) processInstances(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(p *presenter) (any, error) {
		process, err := a.processOf(p)
		if err != nil {
			return nil, err
		}
		rows, err := runningOf(p, []*platform.Process{process})
		list := rows[process.GUID]
		if list == nil {
			list = []runningBody{}
		}
		return map[string]any{"resources": list, "links": links{"self": href(p.base, r.URL.Path), "process": p.v3("/processes/", escape(process.GUID))}}, err
	})
}

// processStats shows one row for each wanted instance, whether it runs or not:
// cf counts them.
func (a *API) processStats(w http.ResponseWriter, r *http.Request) error {
	var process *platform.Process
	var rows []*platform.Instance
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		p := newPresenter(tx, r)
		if process, err = a.processOf(p); err != nil {
			return err
		}
		all, err := instanceRows(tx, []*platform.Process{process})
		rows = all[process.GUID]
		return err
	})
	if err != nil {
		return err
	}
	var known []*platform.Instance
	for _, row := range rows {
		if row != nil {
			known = append(known, row)
		}
	}
	usage := a.runtime.Usage(r.Context(), known)
	out := make([]map[string]any, 0, len(rows))
	for i, row := range rows {
		out = append(out, a.statsRow(process, i, row, usage))
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"resources": out})
	return nil
}

func (a *API) statsRow(process *platform.Process, index int, row *platform.Instance, usage map[string]InstanceUsage) map[string]any {
	b := map[string]any{
		"type": process.Type, "index": index, "state": platform.InstanceDown, "routable": nil, "uptime": 0, "isolation_segment": nil, "details": nil,
	}
	if row == nil {
		return b
	}
	b["state"], b["details"] = row.State, orNull(row.Details)
	if row.State == platform.InstanceDown || row.State == platform.InstanceCrashed {
		b["uptime"] = seconds(a.now(), row.Since)
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
			"time": u.Time.UTC().Format(time.RFC3339), "cpu": u.CPU, "cpu_entitlement": u.CPU, "mem": u.Memory, "disk": u.Disk, "log_rate": u.LogRate,
			"log_lines_lost": u.LogLost, // our own: the log itself tells of each
		}
	}
	for k, v := range map[string]any{
		"instance_guid": row.GUID, "routable": row.State == platform.InstanceRunning && row.Ready, "host": row.Host, "instance_internal_ip": row.InternalIP,
		"uptime": seconds(a.now(), row.Since), "mem_quota": int64(process.MemoryMB) << 20, "disk_quota": int64(process.DiskMB) << 20,
		"log_rate_limit": process.LogRate, "fds_quota": actions.DefaultFiles, "instance_ports": ports, "usage": used,
	} {
		b[k] = v
	}
	if a.traffic != nil {
		b["router"] = presentTraffic(a.traffic.Traffic(row.GUID))
	}
	return b
}

// presentTraffic shows what Cloud Foundry has no member for: what the router
// saw of an instance.
func presentTraffic(t InstanceTraffic) map[string]any {
	millis := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	status := map[string]int64{"none": t.Classes[0]}
	for class := 1; class < len(t.Classes); class++ {
		status[strconv.Itoa(class)+"xx"] = t.Classes[class]
	}
	return map[string]any{
		"requests": t.Requests, "active": t.Active, "status": status, "bytes_received": t.Received, "bytes_sent": t.Sent,
		"latency_ms": map[string]float64{"mean": millis(t.Mean), "p50": millis(t.P50), "p95": millis(t.P95), "p99": millis(t.P99)},
	}
}

func (a *API) restartInstance(w http.ResponseWriter, r *http.Request) error {
	index, err := strconv.Atoi(web.Param(r, "index"))
	if err != nil || index < 0 {
		return fault.New(fault.NotFound, "Instance not found")
	}
	var process *platform.Process
	err = a.store.Update(r.Context(), func(tx platform.Tx) error {
		p := newPresenter(tx, r)
		found, app, err := a.processFor(p, platform.Operate)
		if err != nil {
			return err
		}
		if index >= found.Instances {
			return fault.New(fault.NotFound, "Instance not found")
		}
		process = found
		return a.platform.RecordApp(tx, "audit.app.process.terminate_instance", p.caller.actor(), app, map[string]any{
			"process_guid": found.GUID, "process_type": found.Type, "process_index": index,
		})
	})
	if err != nil {
		return err
	}
	if err := a.runtime.RestartInstance(r.Context(), process.GUID, index); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
