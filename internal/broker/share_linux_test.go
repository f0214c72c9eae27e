package broker

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/base/daemon"
	"ingot/internal/base/loopdisk"
)

// TestServersLeaveRoom: the server of an instance leaves a processor to the platform, and what it
// writes in a second is limited, until its disk is gone.
func TestServersLeaveRoom(t *testing.T) { //nolint:paralleltest // another server would get its loop device
	b := started(t, Config{Without: []string{Redis, MySQL}})
	need(t, b, Postgres)
	c := clientOf(t, b)
	id := c.made(Postgres, "small")
	_, got := c.bound(Postgres, id)
	if err := pooled(t, Postgres, got).PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	i := b.state.get(id)
	if b.own.noGroups != nil || !loopdisk.Mounted(b.own.dirOf(i)) {
		t.Skip("this machine has no control groups or loop devices")
	}
	all, err := daemon.Below(b.own.dirOf(i))
	if err != nil || len(all) == 0 {
		t.Fatalf("processes %v, %v", all, err)
	}
	ours := processors(t, "self")
	for pid := range all {
		if its := processors(t, strconv.Itoa(pid)); its == ours && strings.ContainsAny(ours, ",-") {
			t.Errorf("the server may use processors %s, and this process %s", its, ours)
		}
	}
	device := deviceOf(t, b.own.dirOf(i))
	if limit := writeLimit(t, device); !strings.Contains(limit, "20971520") {
		t.Errorf("the limit of writing to %s: %q", device, limit)
	}
	c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(Postgres, "small"), nil)
	if limit := writeLimit(t, device); limit != "" {
		t.Errorf("the limit of writing to %s after the instance was deleted: %q", device, limit)
	}
	// One that was left by a server that was killed does not apply to the next file system. Another
	// program may take the device meanwhile.
	for range 5 {
		if os.WriteFile(throttled, []byte(device+" 1048576"), 0o600) != nil {
			return // not with version 2, where it is gone with the group
		}
		id = c.made(Postgres, "small")
		next := deviceOf(t, b.own.dirOf(b.state.get(id)))
		if next == device {
			break
		}
		if err := os.WriteFile(throttled, []byte(device+" 0"), 0o600); err != nil {
			t.Fatal(err)
		}
		device = next
		c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(Postgres, "small"), nil)
	}
	if limit := writeLimit(t, device); strings.HasSuffix(strings.TrimSpace(limit), " 1048576") {
		t.Errorf("the limit of writing to %s for the next instance: %q", device, limit)
	}
}

// throttled is the file with the limits of version 1.
const throttled = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device"

// processors returns those that a process may use.
func processors(t *testing.T, pid string) string {
	t.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(strings.TrimSpace(list), "\n")
	return list
}

// deviceOf returns the number of the device that is mounted at a path, such as 7:0.
func deviceOf(t *testing.T, point string) string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == point {
			return f[2]
		}
	}
	t.Fatalf("nothing is mounted at %s", point)
	return ""
}

// writeLimit returns what limits writing to a device.
func writeLimit(t *testing.T, device string) string {
	t.Helper()
	files := []string{throttled}
	for _, above := range []string{"", "ingot.slice/"} {
		more, err := filepath.Glob("/sys/fs/cgroup/" + above + "ingot-*-services/*/io.max")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		content, _ := os.ReadFile(file) // deleted meanwhile
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(line, device+" ") {
				return line
			}
		}
	}
	return ""
}
