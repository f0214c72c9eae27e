package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"ingot/internal/cli"
	"ingot/internal/system"
)

// machine looks at what a server would find here.
func (p *process) machine(ctx context.Context) []cli.Finding {
	findings := []cli.Finding{
		{Name: "ingot", State: cli.FindingOK, Found: strings.TrimSpace(versionText())},
		p.dataDirectory(),
	}
	findings = append(findings, programs(p.getenv("INGOT_PROGRAMS"))...)
	findings = append(findings, withVersion(ctx, tools())...)
	findings = append(findings, checkRuntimes(ctx)...)
	return append(findings, p.engine(ctx))
}

// dataDirectory is where a server would keep its data, and whether it can.
func (p *process) dataDirectory() cli.Finding {
	f := cli.Finding{Name: "data directory", State: cli.FindingOK, Found: p.defaultDataDir(serverName)}
	if dir := p.getenv("INGOT_DATA_DIR"); dir != "" {
		f.Found = dir + " (from INGOT_DATA_DIR)"
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			f.State, f.Get = cli.FindingMissing, dir+" is not a directory: set INGOT_DATA_DIR to another one"
		}
	}
	if f.Found == "" {
		f.State, f.Get = cli.FindingMissing, "neither HOME nor XDG_DATA_HOME is set: pass --data-dir to 'ingot up', or set INGOT_DATA_DIR"
	}
	return f
}

// programsDir is where the programs are that a server starts: the folder that
// was named, or the one of a package (bin/ingot has its own in lib/ingot) when
// they are not beside this program. Empty leaves it to look there and in PATH.
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

// programs are those that a server starts.
func programs(dir string) []cli.Finding {
	dir = programsDir(dir)
	if dir == "" {
		if own, err := os.Executable(); err == nil {
			dir = filepath.Dir(own)
		}
	}
	var all []cli.Finding
	for _, name := range []string{"ingot-init", "ingot-builder", "ingot-static", "ingot-sftp"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			path, _ = exec.LookPath(name) // empty when it is nowhere
		}
		f := cli.Finding{Name: name, State: cli.FindingOK, Found: path}
		if path == "" {
			f.State, f.Get = cli.FindingMissing, "no app runs without it: 'make build' puts it beside ingot, or name its folder with INGOT_PROGRAMS"
		}
		all = append(all, f)
	}
	return all
}

// tools are programs of others, with what is lost without them.
func tools() []cli.Finding {
	var all []cli.Finding
	for _, tool := range []struct{ name, pkg, use string }{
		{"runc", "runc", "apps run in containers with it"},
		{"mkfs.ext4", "e2fsprogs", "containers have a disk limit with it"},
		{"git", "git", "buildpacks can be named by the URL of a repository with it"},
		{"postgres", "postgresql", "the marketplace has PostgreSQL with it"},
		{"mariadbd", "mariadb-server", "the marketplace has MariaDB with it"},
		{"redis-server", "redis-server", "the marketplace has Redis with it"},
	} {
		path := find(tool.name)
		f := cli.Finding{Name: tool.name, State: cli.FindingOK, Found: path}
		if path == "" {
			f.State, f.Get = cli.FindingMissing, fmt.Sprintf("%s: apt-get install %s", tool.use, tool.pkg)
		}
		all = append(all, f)
	}
	return all
}

// withVersion looks at the version of runc, on which the isolation of apps
// depends.
func withVersion(ctx context.Context, all []cli.Finding) []cli.Finding {
	for i := range all {
		f := &all[i]
		if f.Name != "runc" || f.State != cli.FindingOK {
			continue
		}
		name, problem, err := system.RuncVersion(ctx)
		switch {
		case err != nil:
			f.State, f.Get = cli.FindingNote, fmt.Sprintf("it does not run: %v", err)
		case problem != "":
			f.State, f.Get = cli.FindingNote, problem
		default:
			f.Found += " (" + name + ")"
		}
	}
	return all
}

// find looks where programs for administrators are too, and where Debian keeps
// the PostgreSQL server.
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

// engine says which engine --engine auto would pick, by trying.
func (p *process) engine(ctx context.Context) cli.Finding {
	if runtime.GOOS != "linux" {
		return cli.Finding{Name: "engine", State: cli.FindingMissing, Get: "apps run on Linux alone; the client runs everywhere"}
	}
	f := cli.Finding{Name: "engine", State: cli.FindingOK, Found: "container (a trial container worked)"}
	if err := system.TryContainers(ctx, p.getenv("INGOT_PROGRAMS")); err != nil {
		f = cli.Finding{
			Name: "engine", State: cli.FindingNote, Found: "process (WITHOUT isolation)",
			Get: fmt.Sprintf("a trial container did not work: %v. Containers need root and runc; --engine process needs nothing", err),
		}
	}
	return f
}
