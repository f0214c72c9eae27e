package report

import (
	"context"
	"crypto/x509"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/db"
	"ingot/internal/base/version"
	"ingot/internal/base/web"
	"ingot/internal/server/cluster"
	"ingot/internal/server/diskspace"
	"ingot/internal/server/health"
	"ingot/internal/server/installation"
	"ingot/internal/server/pressure"
)

// Report is what operators ask first about a server.
type Report struct {
	Version      string        `json:"version"`
	Parts        []Part        `json:"parts"`
	Engine       Engine        `json:"engine"`
	Database     Database      `json:"database"`
	Servers      []Server      `json:"servers"`
	Disk         Disk          `json:"disk"`
	Queues       []Queue       `json:"queues"`
	Certificates []Certificate `json:"certificates"`
	Backup       *Backup       `json:"backup"` // nil if there was none
	// Pressure is how much the machine's programs wait; empty if its kernel does not measure it.
	Pressure []pressure.Stall `json:"pressure"`
}

// Part is a part of the server; one that is degraded is not ready.
type Part struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
}

// Engine is what runs apps.
type Engine struct {
	Name     string `json:"name"`
	Isolated bool   `json:"isolated"`
	Detail   string `json:"detail"`
	Held     string `json:"held"` // why it starts no instances
}

// Database describes the platform's database.
type Database struct {
	Kind string `json:"kind"`
	Size int64  `json:"size_in_bytes"`
}

// Server is a server of the database.
type Server struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started_at"`
	This    bool      `json:"this"`
}

// Disk is the disk of the data directory.
type Disk struct {
	Size    int64  `json:"size_in_bytes"`
	Free    int64  `json:"free_in_bytes"`
	Reserve int64  `json:"reserve_in_bytes"`
	State   string `json:"state"`
}

// Queue is work that waits.
type Queue struct {
	Name    string `json:"name"`
	Waiting int64  `json:"waiting"`
	Working int64  `json:"working"`
}

// Certificate is a certificate of the server.
type Certificate struct {
	Names   []string  `json:"names"`
	Expires time.Time `json:"expires_at"`
	Source  string    `json:"source"` // files, acme
}

// Backup is the last backup.
type Backup struct {
	Attempted time.Time  `json:"attempted_at"`
	Failure   string     `json:"failure"`
	Finished  *time.Time `json:"finished_at"` // of the last one that succeeded
	Age       *int64     `json:"age_in_seconds"`
	Size      int64      `json:"size_in_bytes"`
}

// Source is where the facts are.
type Source struct {
	Engine func() Engine
	// Database returns the platform's database, LastBackup what is known about its last backup.
	Database     func() *db.DB
	LastBackup   func(context.Context, *db.DB) (installation.BackupState, error)
	Servers      func() []cluster.Server
	Disk         *diskspace.Guard
	Certificates func() []Certificate
	Pressure     func() []pressure.Stall
	// Registry has the metrics of the server.
	Registry *prometheus.Registry
}

// readTime limits what an answer waits for the database.
const readTime = 2 * time.Second

// Routes adds GET /v3/ingot/system.
func (s Source) Routes(g *web.Group, access web.Access) {
	g.Handle(http.MethodGet, "/v3/ingot/system", access, func(w http.ResponseWriter, req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), readTime)
		defer cancel()
		web.WriteJSON(w, http.StatusOK, s.read(ctx))
		return nil
	})
}

// read collects the facts.
func (s Source) read(ctx context.Context) Report {
	state, free := s.Disk.State()
	all := Report{
		Version: version.Version, Parts: []Part{}, Certificates: s.Certificates(), Engine: s.Engine(),
		Disk:     Disk{s.Disk.Size(), free, s.Disk.Reserve(), state.String()},
		Pressure: slices.Concat([]pressure.Stall{}, s.Pressure()),
	}
	if d := s.Database(); d != nil {
		all.Database.Kind = d.Dialect().String()
		all.Database.Size, _ = d.Size(ctx)
		if last, err := s.LastBackup(ctx, d); err == nil && !last.Attempted.IsZero() {
			all.Backup = backupReport(last, time.Now())
		}
	}
	for i, one := range s.Servers() {
		all.Servers = append(all.Servers, Server{one.Host, one.PID, one.Version, one.Started.UTC(), i == 0})
	}
	figures := health.Figures(s.Registry)
	for name, value := range figures {
		if part, ok := strings.CutPrefix(name, "ingot_part_ready "); ok {
			all.Parts = append(all.Parts, Part{part, value == 1})
		}
	}
	slices.SortFunc(all.Parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	figure := func(name string) int64 { return int64(figures[name]) }
	all.Queues = []Queue{
		{"mail", figure("ingot_notify_waiting"), figure("ingot_notify_in_flight")},
		{"builds", figure("ingot_staging_builds_waiting"), figure("ingot_staging_builds_running")},
		{"tasks", figure("ingot_tasks pending"), figure("ingot_tasks running")},
		{"service jobs", figure("ingot_service_jobs polling"), figure("ingot_service_jobs processing")},
	}
	return all
}

func backupReport(last installation.BackupState, now time.Time) *Backup {
	out := &Backup{Attempted: last.Attempted.UTC(), Failure: last.Failure, Size: last.Size}
	if last.Finished != nil {
		at, age := last.Finished.UTC(), int64(now.Sub(*last.Finished).Seconds())
		out.Finished, out.Age = &at, &age
	}
	return out
}

// CertificatesOf returns the certificates in use, from files and by their names from a certificate
// authority, the one that expires next first.
func CertificatesOf(files []*x509.Certificate, ordered map[string]time.Time) []Certificate {
	list := []Certificate{}
	for _, leaf := range files {
		list = append(list, Certificate{slices.Concat([]string{}, leaf.DNSNames), leaf.NotAfter.UTC(), "files"})
	}
	for _, name := range slices.Sorted(maps.Keys(ordered)) {
		list = append(list, Certificate{[]string{name}, ordered[name].UTC(), "acme"})
	}
	slices.SortStableFunc(list, func(a, b Certificate) int { return a.Expires.Compare(b.Expires) })
	return list
}
