package rootless

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"ingot/internal/base/distro"
)

// A MissingError says why an ordinary user cannot have containers, and what changes that.
type MissingError struct {
	Why     string
	Command string // one command for a shell; "" if there is none
}

func (e *MissingError) Error() string {
	text := "containers without root: " + e.Why
	if e.Command != "" {
		text += "; to change that: " + e.Command
	}
	return text
}

func missing(command, why string, args ...any) error {
	return &MissingError{fmt.Sprintf(why, args...), command}
}

// tools are the programs that containers need; of several in one line, any.
var tools = [][]string{{"newuidmap"}, {"newgidmap"}, {"pasta", "slirp4netns"}, {"nsenter"}, {"runc"}}

// find returns the path of a program, also in the directories for administrators.
func find(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"} {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path
			}
		}
	}
	return ""
}

// needTools says which programs are missing, with the command of this distribution that installs them.
func needTools(find func(names ...string) string) error {
	var names, programs []string
	for _, any := range tools {
		if find(any...) == "" {
			names, programs = append(names, strings.Join(any, " or ")), append(programs, any[0])
		}
	}
	if len(names) == 0 {
		return nil
	}
	return missing(sudo(programs...), "%s not found", strings.Join(names, ", "))
}

// sudo returns the command with which a user installs programs.
func sudo(programs ...string) string { return "sudo " + distro.Install(programs...) }

// needIDs says that the user has too few subordinate ids.
func needIDs(user string, err error) error {
	return missing("sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "+user, "%v", err)
}

// settings are those of the kernel that forbid user namespaces, with the value that allows them.
var settings = []struct{ file, name, forbids, allows string }{
	{"kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", "0", "1"},
	{"user/max_user_namespaces", "user.max_user_namespaces", "0", "28633"},
	{"kernel/apparmor_restrict_unprivileged_userns", "kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
}

// refused explains why the kernel refuses a user namespace, or rights in it; proc is /proc/sys.
func refused(proc string, err error) error {
	for _, s := range settings {
		text, readErr := os.ReadFile(filepath.Join(proc, s.file))
		if readErr == nil && strings.TrimSpace(string(text)) == s.forbids {
			return missing(fmt.Sprintf("sudo sysctl -w %s=%s", s.name, s.allows),
				"the kernel does not allow user namespaces with rights (%s=%s): %v", s.name, s.forbids, err)
		}
	}
	return missing("", "a user namespace cannot be made: %v", err)
}

// needTun says that the network of instances cannot have a way out.
func needTun(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV):
		return missing("sudo modprobe tun", "%v", err)
	default:
		return missing("sudo chmod 0666 "+device, "%v", err)
	}
}
