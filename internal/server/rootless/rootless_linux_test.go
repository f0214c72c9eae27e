package rootless

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/rootless"
	"ingot/internal/base/testkit"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
}

// TestIDs checks which subordinate ids a user has, and how they are mapped.
func TestIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/subuid", "ann:100000:65536\nbob:300000:10\n1001:500000:4464\n")
	write(t, dir+"/subgid", "ann:200000:65536\nann:700000:10\n")
	m, err := mapsOf(dir, "ann", 1001)
	if err != nil {
		t.Fatal(err)
	}
	if m.count != 1+65546 {
		t.Errorf("%d ids, want the fewer of both and root", m.count)
	}
	want := []string{"0", "1001", "1", "1", "100000", "65536", "65537", "500000", "4464"}
	if got := arguments(1001, m.users); !slices.Equal(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
	if _, err := mapsOf(dir, "bob", 1002); err == nil || !strings.Contains(needIDs("bob", err).Error(),
		"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 bob") {
		t.Errorf("too few ids: %v", err)
	}
	write(t, dir+"/subuid", "ann:1:x\n")
	if _, err := mapsOf(dir, "ann", 1001); err == nil {
		t.Error("a damaged line is accepted")
	}
	if _, err := mapsOf(filepath.Join(dir, "none"), "ann", 1001); err == nil {
		t.Error("no file is accepted")
	}
}

// TestIDsAreSeparate checks that accounts, instances and servers have different ids.
func TestIDsAreSeparate(t *testing.T) {
	t.Parallel()
	s := &rootless.Space{IDs: 65537}
	first, end := s.ForInstances()
	if first < 1000 || end <= first {
		t.Errorf("instances have the ids %d to %d", first, end)
	}
	for _, port := range []int{1, 8191, 8192, 65535} {
		if id := s.ForServer(port); id < end || int(id) >= s.IDs {
			t.Errorf("the server on port %d has id %d, with instances up to %d", port, id, end)
		}
	}
}

// TestCommands checks that each thing that can be missing has one command, that of the distribution.
func TestCommands(t *testing.T) {
	t.Parallel()
	only := func(have ...string) func(...string) string {
		return func(names ...string) string {
			for _, name := range names {
				if slices.Contains(have, name) {
					return "/usr/bin/" + name
				}
			}
			return ""
		}
	}
	for _, test := range []struct {
		have []string
		want string
	}{
		{nil, sudo("newuidmap", "newgidmap", "pasta", "nsenter", "runc")},
		{[]string{"nsenter", "runc"}, sudo("newuidmap", "newgidmap", "pasta")},
		{[]string{"newuidmap", "newgidmap", "slirp4netns", "nsenter"}, sudo("runc")},
		{[]string{"newuidmap", "newgidmap", "pasta", "nsenter", "runc"}, ""},
	} {
		err := needTools(only(test.have...))
		var m *MissingError
		if errors.As(err, &m) != (test.want != "") || m != nil && m.Command != test.want {
			t.Errorf("with %q: %v, want %q", test.have, err, test.want)
		}
	}
	for _, s := range settings {
		dir := t.TempDir()
		write(t, filepath.Join(dir, s.file), s.forbids+"\n")
		if err := refused(dir, os.ErrPermission); !strings.HasSuffix(err.Error(), "sudo sysctl -w "+s.name+"="+s.allows) {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	if err := refused(t.TempDir(), os.ErrPermission); !strings.Contains(err.Error(), "cannot be made") {
		t.Errorf("without a reason: %v", err)
	}
	if err := needTun(filepath.Join(t.TempDir(), "tun")); err == nil ||
		!strings.HasSuffix(err.Error(), "sudo modprobe tun") {
		t.Errorf("no tun: %v", err)
	}
}

// TestReasons checks that a reason survives the way from one stage to the next.
func TestReasons(t *testing.T) {
	t.Parallel()
	for _, err := range []error{missing("sudo do it", "no %s", "luck"), &MissingError{Why: "plain"}} {
		if got := decodeReason(encodeReason(err)); got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := decodeReason("not a reason"); !strings.Contains(got.Error(), "not a reason") {
		t.Error(got)
	}
}

// TestGroups checks which control group is the user's.
func TestGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := groups{proc: dir + "/proc", tree: dir + "/tree", user: "ann", uid: 1001}
	scope := "/user.slice/user-1001.slice/user@1001.service/app.slice/ingot-data-x.scope"
	write(t, dir+"/tree/cgroup.controllers", "cpu memory pids\n")
	write(t, dir+"/proc/7/cgroup", "0::"+scope+"/hold\n")
	write(t, dir+"/proc/8/cgroup", "0::/user.slice/other\n")
	if got, err := g.belongs(7); err != nil || got != scope {
		t.Errorf("group %q, %v", got, err)
	}
	if got, err := g.belongs(8); err == nil {
		t.Errorf("a group of another program is used: %q", got)
	}
	write(t, dir+"/proc/self/cgroup", "0::/user.slice/user-1001.slice/session-1.scope\n")
	if g.mayMove(scope) {
		t.Error("a session may start processes in the groups of the user's systemd")
	}
	write(t, dir+"/tree/user.slice/user-1001.slice/user@1001.service/app.slice/cgroup.procs", "")
	write(t, dir+"/proc/self/cgroup", "0::/user.slice/user-1001.slice/user@1001.service/app.slice/ingot.service\n")
	if !g.mayMove(scope) {
		t.Error("a unit of the user may not start processes in the groups of the user's systemd")
	}
	if _, err := g.check(); err == nil || !strings.Contains(err.Error(), "sudo loginctl enable-linger ann") {
		t.Errorf("without a systemd: %v", err)
	}
	old := groups{proc: dir + "/proc", tree: dir + "/old", user: "ann", uid: 1001}
	write(t, dir+"/proc/self/cgroup", "2:memory:/ann\n1:pids:/\n0::/\n")
	write(t, dir+"/old/memory/ann/cgroup.procs", "")
	if _, err := old.check(); err == nil || !strings.Contains(err.Error(), "version 1") {
		t.Errorf("version 1 with one group only: %v", err)
	}
	write(t, dir+"/proc/self/cgroup", "2:memory:/ann\n1:pids:/ann\n0::/\n")
	write(t, dir+"/old/pids/ann/cgroup.procs", "")
	if _, err := old.check(); err != nil {
		t.Errorf("version 1 with groups of the user: %v", err)
	}
}
