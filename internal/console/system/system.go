package system

import (
	"embed"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// Scopes are the scopes that allow seeing the system; one of them is enough.
var Scopes = []string{"cloud_controller.admin", "cloud_controller.admin_read_only", "cloud_controller.global_auditor"}

// systemData is the answer of GET /v3/ingot/system.
type systemData struct {
	Version string `json:"version"`
	Parts   []struct {
		Name  string `json:"name"`
		Ready bool   `json:"ready"`
	} `json:"parts"`
	Engine struct {
		Name     string `json:"name"`
		Isolated bool   `json:"isolated"`
		Detail   string `json:"detail"`
		Held     string `json:"held"`
	} `json:"engine"`
	Database struct {
		Kind string `json:"kind"`
		Size int64  `json:"size_in_bytes"`
	} `json:"database"`
	Servers []struct {
		Host    string    `json:"host"`
		PID     int       `json:"pid"`
		Version string    `json:"version"`
		Started time.Time `json:"started_at"`
		This    bool      `json:"this"`
	} `json:"servers"`
	Disk struct {
		Size    int64  `json:"size_in_bytes"`
		Free    int64  `json:"free_in_bytes"`
		Reserve int64  `json:"reserve_in_bytes"`
		State   string `json:"state"`
	} `json:"disk"`
	Queues []struct {
		Name    string `json:"name"`
		Waiting int64  `json:"waiting"`
		Working int64  `json:"working"`
	} `json:"queues"`
	Pressure []struct {
		Resource string  `json:"resource"`
		Some     float64 `json:"some"`
		Full     float64 `json:"full"`
		Short    bool    `json:"short"`
	} `json:"pressure"`
	Certificates []certificate `json:"certificates"`
	Backup       *struct {
		Attempted time.Time  `json:"attempted_at"`
		Failure   string     `json:"failure"`
		Finished  *time.Time `json:"finished_at"`
		Size      int64      `json:"size_in_bytes"`
	} `json:"backup"`
	Late    bool   `json:"-"` // the last backup is old, or there is none
	Command string `json:"-"`
}

type certificate struct {
	Names   []string  `json:"names"`
	Expires time.Time `json:"expires_at"`
	Source  string    `json:"source"`
	Soon    bool      `json:"-"` // it expires soon
}

const (
	// backupLate is the age of a backup that the page points out.
	backupLate = 48 * time.Hour
	// expiresSoon is how long before its end a certificate is pointed out.
	expiresSoon = 14 * 24 * time.Hour
)

//go:embed pages/*.html
var files embed.FS

// Files are the templates of the system.
var Files = page.Files{FS: files}

// pages serves the page of the system.
type pages struct{ *page.Console }

// New returns the page of the system.
func New(core *page.Console) page.Part {
	c := pages{core}
	return page.Part{Screens: map[string]page.Screen{
		"/system": {Title: "System", Section: "system", Template: "system.html", Live: "system", Load: c.loadSystem},
		"/system/history": {Title: "History of the system", Section: "system", Template: "system-history.html",
			Load: c.loadHistory},
	}}
}

// forAdministrators returns an error, with a text if the caller may not see the system.
func forAdministrators(err error, text string) error {
	if fault.Is(err, fault.Forbidden) {
		return fault.New(fault.Forbidden, "%s", text)
	}
	return err
}

// loadSystem is GET /console/system, for administrators.
func (c pages) loadSystem(r *http.Request, s *page.Session) (any, error) {
	data := &systemData{Command: page.Command("cf", "curl", "/v3/ingot/system")}
	if err := c.Platform(r, s).Get(data, "/v3/ingot/system", nil); err != nil {
		return nil, forAdministrators(err, "The state of the system is for administrators and global auditors.")
	}
	now := time.Now()
	for i := range data.Certificates {
		data.Certificates[i].Soon = data.Certificates[i].Expires.Sub(now) < expiresSoon
	}
	data.Late = data.Backup == nil || data.Backup.Finished == nil || now.Sub(*data.Backup.Finished) > backupLate
	return data, nil
}
