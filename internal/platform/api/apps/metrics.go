package apps

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

// metricsType is the text format of Prometheus.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// exposition writes metrics in Prometheus' text format.
type exposition struct {
	order []string
	lines map[string][]string
}

// add adds a sample; labels are pairs of names and values.
func (x *exposition) add(name, kind, help string, value float64, labels ...string) {
	if x.lines == nil {
		x.lines = map[string][]string{}
	}
	if x.lines[name] == nil {
		x.order = append(x.order, name)
		x.lines[name] = []string{"# HELP " + name + " " + help, "# TYPE " + name + " " + kind}
	}
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+labelValue.Replace(labels[i+1])+`"`)
	}
	x.lines[name] = append(x.lines[name], fmt.Sprintf("%s{%s} %s", name, strings.Join(pairs, ","),
		strconv.FormatFloat(value, 'g', -1, 64)))
}

var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (x *exposition) String() string {
	var b strings.Builder
	for _, name := range x.order {
		b.WriteString(strings.Join(x.lines[name], "\n") + "\n")
	}
	return b.String()
}

// metrics shows the instances of an app as metrics, for the developers' own Prometheus.
func (a *API) metrics(w http.ResponseWriter, r *http.Request) error {
	var app *platform.App
	var processes []*platform.Process
	rows, err := rest.View(a.Server, r, func(req *rest.Request) (rows map[string][]*platform.Instance, err error) {
		if app, err = rest.Find(req.Caller, req.Tx.Apps(), web.Param(r, "guid"), "App"); err != nil {
			return nil, err
		}
		if processes, _, err = req.Tx.Processes().List(platform.Query{
			Where: []platform.Cond{platform.In("app_guid", app.GUID)}, WithoutSecrets: true}); err != nil {
			return nil, err
		}
		return actions.InstancesOf(req.Tx, processes)
	})
	if err != nil {
		return err
	}
	var x exposition
	var known []*platform.Instance
	var guids []string
	for _, list := range rows {
		for _, row := range list {
			if row != nil {
				known, guids = append(known, row), append(guids, row.GUID)
			}
		}
	}
	usage := a.Runtime.Usage(r.Context(), known)
	var traffic map[string]InstanceTraffic
	if a.Traffic != nil {
		traffic = a.Traffic.Traffic(r.Context(), guids...)
	}
	for _, p := range processes {
		labels := []string{"app", app.Name, "process", p.Type}
		x.add("ingot_app_instances_wanted", "gauge", "Instances that the app should have.", float64(p.Instances), labels...)
		for _, row := range rows[p.GUID] {
			if row != nil {
				instanceMetrics(&x, p, row, usage, traffic, append(labels, "instance", strconv.Itoa(row.Index)))
			}
		}
	}
	w.Header().Set("Content-Type", metricsType)
	_, err = w.Write([]byte(x.String()))
	return err
}

func instanceMetrics(x *exposition, p *platform.Process, row *platform.Instance, usage map[string]InstanceUsage,
	traffic map[string]InstanceTraffic, labels []string) {
	up := 0.0
	if row.State == platform.InstanceRunning {
		up = 1
	}
	x.add("ingot_app_instance_up", "gauge", "Whether the instance runs.", up, labels...)
	x.add("ingot_app_instance_crashes", "gauge", "Crashes in a row.", float64(row.Crashes), labels...)
	if u, ok := usage[row.GUID]; ok {
		x.add("ingot_app_instance_cpu", "gauge", "Processors that the instance uses.", u.CPU, labels...)
		x.add("ingot_app_instance_memory_bytes", "gauge", "Memory that the instance uses.", float64(u.Memory), labels...)
		x.add("ingot_app_instance_memory_limit_bytes", "gauge", "Memory limit of the instance.",
			float64(int64(p.MemoryMB)<<20), labels...)
		x.add("ingot_app_instance_disk_bytes", "gauge", "Disk that the instance uses.", float64(u.Disk), labels...)
		x.add("ingot_app_instance_disk_limit_bytes", "gauge", "Disk limit of the instance.",
			float64(int64(p.DiskMB)<<20), labels...)
		x.add("ingot_app_instance_log_bytes_per_second", "gauge", "Output of the instance.", float64(u.LogRate), labels...)
	}
	t, ok := traffic[row.GUID]
	if !ok {
		return
	}
	for class, n := range t.Classes {
		name := "none"
		if class > 0 {
			name = strconv.Itoa(class) + "xx"
		}
		x.add("ingot_app_instance_requests_total", "counter", "Requests by the class of their answer.", float64(n),
			append(labels, "class", name)...)
	}
	if t.Requests > 0 {
		for _, q := range []struct {
			name    string
			seconds float64
		}{{"0.5", t.P50.Seconds()}, {"0.95", t.P95.Seconds()}, {"0.99", t.P99.Seconds()}} {
			x.add("ingot_app_instance_request_seconds", "gauge",
				"Time that a share of the requests since the start did not exceed.", q.seconds,
				append(labels, "quantile", q.name)...)
		}
	}
}
