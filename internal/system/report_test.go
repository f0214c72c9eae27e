package system

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ingot/internal/base/version"
	"ingot/internal/server/installation"
	"ingot/internal/server/report"
)

// TestReport reads what administrators see of the server.
func TestReport(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	s := startSystem(t, c)
	read := func() (v report.Report) {
		t.Helper()
		a := call(t, http.MethodGet, s.Endpoints().API+"/v3/ingot/system", adminToken(t, s), nil)
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if err := json.Unmarshal([]byte(a.body), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := read()
	if v.Version != version.Version || v.Engine.Name == "" || v.Database.Kind == "" || v.Database.Size == 0 {
		t.Errorf("%+v", v)
	}
	if len(v.Servers) != 1 || !v.Servers[0].This || v.Servers[0].PID != os.Getpid() ||
		time.Since(v.Servers[0].Started) > time.Hour {
		t.Errorf("servers: %+v", v.Servers)
	}
	if v.Disk.Size == 0 || v.Disk.Free == 0 || v.Disk.Reserve == 0 || v.Disk.State == "" {
		t.Errorf("disk: %+v", v.Disk)
	}
	ready := map[string]bool{}
	for _, p := range v.Parts {
		ready[p.Name] = p.Ready
	}
	if !ready[partPlatform] || !ready[partNotifications] {
		t.Errorf("parts: %+v", v.Parts)
	}
	if len(v.Queues) != 4 || v.Queues[0].Name != "mail" {
		t.Errorf("queues: %+v", v.Queues)
	}
	if v.Backup != nil || len(v.Certificates) != 0 {
		t.Errorf("backup %+v, certificates %+v of a server that has none", v.Backup, v.Certificates)
	}

	// A backup that succeeded, and one that failed after it.
	text := `{"attempted":"2026-01-02T00:00:00Z","failure":"the target is full","finished":"2026-01-01T00:00:00Z","size":42}`
	if err := os.WriteFile(filepath.Join(c.DataDir, installation.StateFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if b := read().Backup; b == nil || b.Failure != "the target is full" || b.Size != 42 || b.Finished == nil ||
		b.Age == nil || *b.Age < 3600 {
		t.Errorf("backup: %+v", b)
	}
}
