package container

import (
	"os"
	"path/filepath"
	"strings"
)

// Inside returns the runtime of the container in which this program runs: docker, podman,
// kubernetes, the name that the runtime gives itself, or "" if it is not in a container as far as
// it can be seen. root is the root directory, / but for tests.
func Inside(root string) string {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(root, name)) // empty if it is another user's
		return string(text)
	}
	if has("var/run/secrets/kubernetes.io/serviceaccount") {
		return "kubernetes"
	}
	if has("run/.containerenv") {
		return "podman"
	}
	if has(".dockerenv") {
		return "docker"
	}
	// systemd's convention, which nspawn, LXC and podman follow
	for variable := range strings.SplitSeq(read("proc/1/environ"), "\x00") {
		if name, ok := strings.CutPrefix(variable, "container="); ok && name != "" {
			return name
		}
	}
	groups := read("proc/1/cgroup")
	for _, r := range []struct{ mark, name string }{
		{"/docker", "docker"}, {"libpod-", "podman"}, {"/kubepods", "kubernetes"}, {"/lxc", "lxc"},
	} {
		if strings.Contains(groups, r.mark) {
			return r.name
		}
	}
	return ""
}

const otherwise = "; otherwise they run as plain processes, which the outer container isolates from the machine, " +
	"but not from each other"

// InsideHint says what a container of this runtime needs to run containers in it.
func InsideHint(runtime string) string {
	switch runtime {
	case "kubernetes":
		return "apps in separate Pods need --engine kubernetes; in this Pod they run as plain processes"
	case "docker", "podman":
		return "apps can be isolated only with '" + runtime + " run --privileged --cgroupns=private'" + otherwise
	}
	return "apps can be isolated only if the container may mount, make namespaces and control groups" + otherwise
}
