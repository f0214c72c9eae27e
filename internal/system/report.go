package system

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/version"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/server/health"
	"ingot/internal/server/installation"
)

// report is what operators ask first about a server.
type report struct {
	Version      string              `json:"version"`
	Parts        []reportPart        `json:"parts"`
	Engine       reportEngine        `json:"engine"`
	Database     reportDatabase      `json:"database"`
	Servers      []reportServer      `json:"servers"`
	Disk         reportDisk          `json:"disk"`
	Queues       []reportQueue       `json:"queues"`
	Certificates []reportCertificate `json:"certificates"`
	Backup       *reportBackup       `json:"backup"` // nil if there was none
}

// reportPart is a part of the server; one that is degraded is not ready.
type reportPart struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
}

type reportEngine struct {
	Name     string `json:"name"`
	Isolated bool   `json:"isolated"`
	Detail   string `json:"detail"`
	Held     string `json:"held"` // why it starts no instances
}

type reportDatabase struct {
	Kind string `json:"kind"`
	Size int64  `json:"size_in_bytes"`
}

// reportServer is a server of the database.
type reportServer struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started_at"`
	This    bool      `json:"this"`
}

// reportDisk is the disk of the data directory.
type reportDisk struct {
	Size    int64  `json:"size_in_bytes"`
	Free    int64  `json:"free_in_bytes"`
	Reserve int64  `json:"reserve_in_bytes"`
	State   string `json:"state"`
}

type reportQueue struct {
	Name    string `json:"name"`
	Waiting int64  `json:"waiting"`
	Working int64  `json:"working"`
}

type reportCertificate struct {
	Names   []string  `json:"names"`
	Expires time.Time `json:"expires_at"`
	Source  string    `json:"source"` // files, acme
}

type reportBackup struct {
	Attempted time.Time  `json:"attempted_at"`
	Failure   string     `json:"failure"`
	Finished  *time.Time `json:"finished_at"` // of the last one that succeeded
	Age       *int64     `json:"age_in_seconds"`
	Size      int64      `json:"size_in_bytes"`
}

// reportRoutes adds GET /v3/ingot/system.
func (s *System) reportRoutes(g *web.Group, b *frontend, r *runtime) {
	access := web.Scope(platform.ScopeAdmin, platform.ScopeAdminReadOnly, platform.ScopeGlobalAuditor)
	g.Handle(http.MethodGet, "/v3/ingot/system", access, func(w http.ResponseWriter, req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), 2*time.Second)
		defer cancel()
		web.WriteJSON(w, http.StatusOK, s.report(ctx, b, r))
		return nil
	})
}

// report collects the facts. What cannot be read, for example because the database does not
// answer, is left out.
func (s *System) report(ctx context.Context, b *frontend, r *runtime) report {
	engine := r.engine.Describe()
	state, free := b.disk.State()
	all := report{
		Version: version.Version, Parts: []reportPart{}, Certificates: b.secure.expiries(),
		Engine: reportEngine{engine.Name, engine.Isolated, engine.Detail, engine.Held},
		Disk:   reportDisk{b.disk.Size(), free, b.disk.Reserve(), state.String()},
	}
	if d := b.databases.Platform(); d != nil {
		all.Database.Kind = d.Dialect().String()
		all.Database.Size, _ = d.Size(ctx)
		if last, err := Parts().LastOf(ctx, s.config.DataDir, d); err == nil && !last.Attempted.IsZero() {
			all.Backup = backupReport(last, time.Now())
		}
	}
	for i, one := range r.cluster.List() {
		all.Servers = append(all.Servers, reportServer{one.Host, one.PID, one.Version, one.Started.UTC(), i == 0})
	}
	figures := health.Figures(b.registry)
	for name, value := range figures {
		if part, ok := strings.CutPrefix(name, "ingot_part_ready "); ok {
			all.Parts = append(all.Parts, reportPart{part, value == 1})
		}
	}
	slices.SortFunc(all.Parts, func(a, b reportPart) int { return strings.Compare(a.Name, b.Name) })
	figure := func(name string) int64 { return int64(figures[name]) }
	all.Queues = []reportQueue{
		{"mail", figure("ingot_notify_waiting"), figure("ingot_notify_in_flight")},
		{"builds", figure("ingot_staging_builds_waiting"), figure("ingot_staging_builds_running")},
		{"tasks", figure("ingot_tasks pending"), figure("ingot_tasks running")},
		{"service jobs", figure("ingot_service_jobs polling"), figure("ingot_service_jobs processing")},
	}
	return all
}

func backupReport(last installation.BackupState, now time.Time) *reportBackup {
	out := &reportBackup{Attempted: last.Attempted.UTC(), Failure: last.Failure, Size: last.Size}
	if last.Finished != nil {
		at, age := last.Finished.UTC(), int64(now.Sub(*last.Finished).Seconds())
		out.Finished, out.Age = &at, &age
	}
	return out
}

// expiries returns the certificates in use, the one that expires next first.
func (t *secure) expiries() []reportCertificate {
	list := []reportCertificate{}
	if t == nil {
		return list
	}
	if t.files != nil {
		for _, leaf := range t.files.Leaves() {
			list = append(list, reportCertificate{slices.Concat([]string{}, leaf.DNSNames), leaf.NotAfter.UTC(), "files"})
		}
	}
	if m := t.acme.Load(); m != nil {
		expires := m.Expiries()
		for _, name := range slices.Sorted(maps.Keys(expires)) {
			list = append(list, reportCertificate{[]string{name}, expires[name].UTC(), "acme"})
		}
	}
	slices.SortStableFunc(list, func(a, b reportCertificate) int { return a.Expires.Compare(b.Expires) })
	return list
}
