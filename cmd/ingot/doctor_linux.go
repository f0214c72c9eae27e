package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"ingot/internal/base/distro"
	"ingot/internal/base/mounts"
	"ingot/internal/cli/core"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/server/pressure"
	"ingot/internal/system"
)

// machine checks what a server would find on this machine, or in a cluster.
func (p *process) machine(ctx context.Context, o core.DoctorOptions) []core.Finding {
	if cmp.Or(o.Engine, p.getenv("INGOT_ENGINE")) == "kubernetes" {
		return p.cluster(ctx, o)
	}
	findings := []core.Finding{
		{Name: "ingot", State: core.FindingOK, Found: strings.TrimSpace(versionText())},
		p.dataDirectory(),
	}
	findings = append(findings, p.host()...)
	findings = append(findings, programs(p.getenv("INGOT_PROGRAMS"))...)
	findings = append(findings, withVersion(ctx, tools())...)
	findings = append(findings, checkRuntimes(ctx)...)
	findings = append(findings, p.engine(ctx))
	return append(findings, memoryPressure(pressure.Machine())...)
}

// memoryPressure says how much the machine's programs wait for memory, if its kernel measures it.
func memoryPressure(all []pressure.Stall) []core.Finding {
	for _, s := range all {
		if s.Resource != "memory" {
			continue
		}
		f := core.Finding{Name: "memory pressure", State: core.FindingOK,
			Found: fmt.Sprintf("programs waited for memory during %.1f %% of the last minute", s.Full)}
		if s.Short {
			f.State, f.Get = core.FindingWarn, pressure.Advice
		}
		return []core.Finding{f}
	}
	return nil
}

// cluster checks a cluster with the configuration that a server would have.
func (p *process) cluster(ctx context.Context, o core.DoctorOptions) []core.Finding {
	c := system.DefaultConfig()
	for _, v := range []struct {
		to             *string
		flag, variable string
	}{
		{&c.Kubernetes.Namespace, o.Namespace, "INGOT_KUBERNETES_NAMESPACE"},
		{&c.Kubernetes.Image, o.Image, "INGOT_KUBERNETES_IMAGE"},
		{&c.Kubernetes.Kubeconfig, o.Kubeconfig, "INGOT_KUBERNETES_KUBECONFIG"},
		{&c.Kubernetes.UserNamespaces, o.UserNamespaces, "INGOT_KUBERNETES_USER_NAMESPACES"},
		{&c.DatabaseURL, o.DatabaseURL, "INGOT_DATABASE_URL"}, {&c.BlobURL, o.BlobURL, "INGOT_BLOB_URL"},
	} {
		*v.to = cmp.Or(v.flag, p.getenv(v.variable), *v.to)
	}
	findings := []core.Finding{{Name: "ingot", State: core.FindingOK, Found: strings.TrimSpace(versionText())}}
	system.CheckCluster(ctx, c, func(f kubernetes.Finding) {
		state := map[kubernetes.Level]string{kubernetes.OK: core.FindingOK, kubernetes.Warn: core.FindingWarn,
			kubernetes.Fail: core.FindingFail}[f.Level]
		findings = append(findings, core.Finding{Name: f.Step, State: state, Found: f.Found, Get: f.Do})
	})
	return findings
}

// dataDirectory checks the data directory that a server would use.
func (p *process) dataDirectory() core.Finding {
	f := core.Finding{Name: "data directory", State: core.FindingOK, Found: p.defaultDataDir(serverName)}
	if dir := p.getenv("INGOT_DATA_DIR"); dir != "" {
		f.Found = dir + " (from INGOT_DATA_DIR)"
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			f.State, f.Get = core.FindingMissing, dir+" is not a directory: set INGOT_DATA_DIR to another one"
		}
	}
	if err := mounts.Check(cmp.Or(p.getenv("INGOT_DATA_DIR"), f.Found), mounts.NoExec, mounts.NoSymlinks); err != nil &&
		f.Found != "" && f.State == core.FindingOK {
		f.State, f.Get = core.FindingNote,
			fmt.Sprintf("apps run there in containers, but not as plain processes: %v, or choose another directory", err)
	}
	if f.Found == "" {
		f.State, f.Get = core.FindingMissing,
			"neither HOME nor XDG_DATA_HOME is set: pass --data-dir to 'ingot up', or set INGOT_DATA_DIR"
	}
	return f
}

// programsDir returns the directory of the programs that a server starts: the
// given one, or lib/ingot beside bin/ingot in a package. It returns "" when they
// are to be searched beside this program and in PATH.
func programsDir(named string) string {
	own, err := os.Executable()
	if named != "" || err != nil {
		return named
	}
	const first = "ingot-init"
	if _, err := os.Stat(filepath.Join(filepath.Dir(own), first)); err == nil {
		return ""
	}
	packaged := filepath.Join(filepath.Dir(own), "..", "lib", "ingot")
	if _, err := os.Stat(filepath.Join(packaged, first)); err == nil {
		return packaged
	}
	return ""
}

// programs checks the programs that a server starts.
func programs(dir string) []core.Finding {
	dir = programsDir(dir)
	if dir == "" {
		if own, err := os.Executable(); err == nil {
			dir = filepath.Dir(own)
		}
	}
	var all []core.Finding
	for _, name := range []string{"ingot-init", "ingot-builder", "ingot-static", "ingot-sftp"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			path, _ = exec.LookPath(name) // empty if not found
		}
		f := core.Finding{Name: name, State: core.FindingOK, Found: path}
		if err := mounts.Check(path, mounts.NoExec); err != nil && path != "" {
			f.State, f.Get = core.FindingNote, fmt.Sprintf("containers have a copy of it, but plain processes cannot run it: %v",
				err)
		}
		if path == "" {
			f.State, f.Get = core.FindingMissing,
				"apps cannot run without it: 'make build' puts it beside ingot, or set INGOT_PROGRAMS to its directory"
		}
		all = append(all, f)
	}
	return all
}

// tools checks third-party programs and says what does not work without them.
func tools() []core.Finding {
	var all []core.Finding
	for _, tool := range []struct{ name, use string }{
		{"runc", "needed to run apps in containers"},
		{"mkfs.ext4", "needed for disk limits of containers"},
		{"git", "needed for buildpacks from git repositories"},
		{"postgres", "needed for the service postgres"},
		{"mariadbd", "needed for the service mysql"},
		{"redis-server", "needed for the service redis"},
	} {
		path := find(tool.name)
		f := core.Finding{Name: tool.name, State: core.FindingOK, Found: path}
		if path == "" {
			f.State, f.Get = core.FindingMissing, fmt.Sprintf("%s: %s", tool.use, distro.Install(tool.name))
		}
		all = append(all, f)
	}
	return all
}

// withVersion adds the version of runc, on which the isolation of apps depends.
func withVersion(ctx context.Context, all []core.Finding) []core.Finding {
	for i := range all {
		f := &all[i]
		if f.Name != "runc" || f.State != core.FindingOK {
			continue
		}
		name, problem, err := container.RuncVersion(ctx)
		switch {
		case err != nil:
			f.State, f.Get = core.FindingNote, fmt.Sprintf("cannot be run: %v", err)
		case problem != "":
			f.State, f.Get = core.FindingNote, problem
		default:
			f.Found += " (" + name + ")"
		}
	}
	return all
}

// find searches PATH, the directories for administrators, and Debian's
// directories for the PostgreSQL server.
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/lib/postgresql/*/bin"} {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// engine reports which engine --engine auto would choose, by trying it.
func (p *process) engine(ctx context.Context) core.Finding {
	if runtime.GOOS != "linux" {
		return core.Finding{Name: "engine", State: core.FindingMissing,
			Get: "apps run on Linux only; the client runs everywhere"}
	}
	f := core.Finding{Name: "engine", State: core.FindingOK, Found: "container (a test container worked)"}
	tryHere := choice.TryContainers
	if p.uid != 0 && os.Geteuid() != 0 {
		tryHere, f.Found = tryRootless, "container (a test container worked, without root)"
	}
	if err := tryHere(ctx, programsDir(p.getenv("INGOT_PROGRAMS"))); err != nil {
		f = core.Finding{
			Name: "engine", State: core.FindingNote, Found: "process (WITHOUT isolation)",
			Get: "a test container failed: " + strings.ReplaceAll(err.Error(), "\n", "; "),
		}
		if runtime := container.Inside("/"); runtime != "" {
			f.Get += "; " + container.InsideHint(runtime)
		}
	}
	return f
}
