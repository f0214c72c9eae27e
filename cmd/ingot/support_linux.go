package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/datadir"
	"ingot/internal/base/plural"
	"ingot/internal/cli/core"
	"ingot/internal/server/support"
	"ingot/internal/system"
)

// supportOptions are the flags of 'ingot support-bundle'.
type supportOptions struct {
	Output      string        `long:"output" short:"o" value-name:"FILE" description:"File to write, which must not exist; - is standard output (default: ingot-support-TIME.tar.gz)"`
	DataDir     string        `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the server"`
	DatabaseURL string        `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Database of the server, if it has the flag and is not running"`
	Since       time.Duration `long:"since" own-default:"24h" value-name:"DURATION" description:"How far back the logs go"`
}

// packagedVariables are the settings of the server that systemd runs.
const packagedVariables = "/etc/default/ingot"

// supportBundle writes an archive for a bug report.
func (p *process) supportBundle(o supportOptions) error {
	switch {
	case o.DataDir == "":
		return &usageError{errNoDataDir.Error(), "support-bundle"}
	case o.Since <= 0:
		return &usageError{"--since: it must be positive, such as 24h", "support-bundle"}
	}
	if err := p.mayRead(o.DataDir); err != nil {
		return err
	}
	now := time.Now()
	root := "ingot-support-" + now.UTC().Format("20060102T150405Z")
	w, name, err := p.bundleFile(cmp.Or(o.Output, root+".tar.gz"))
	if err != nil {
		return err
	}
	ctx, stop := p.untilAsked(slog.New(slog.DiscardHandler))
	defer stop()
	facts := p.supportFacts(o)
	outcomes, err := support.Write(ctx, w, root, facts.about(now), facts.parts(now.Add(-o.Since)),
		support.NewScrubber(facts.secrets()...))
	if err = errors.Join(err, w.Close()); err != nil {
		if name != "" {
			_ = os.Remove(name) // it is not complete
		}
		return fmt.Errorf("the bundle was not written: %w", err)
	}
	say := p.out
	if name == "" {
		say = p.err
	}
	missing := slices.DeleteFunc(outcomes, func(o support.Outcome) bool { return o.Size > 0 })
	fmt.Fprintf(say, "Wrote %s. Look through it before you pass it on: it has names of hosts, paths and log lines.\n",
		cmp.Or(name, "the bundle"))
	if len(missing) > 0 {
		fmt.Fprintf(say, "Without %s:\n", plural.Count(len(missing), "part"))
		for _, m := range missing {
			fmt.Fprintf(say, "  %-24s %s\n", m.Name, m.Note)
		}
	}
	return nil
}

// mayRead returns an error if this user cannot read the data directory.
func (p *process) mayRead(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist; --data-dir names the data directory of the server", dir)
	}
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || p.uid == 0 || int(s.Uid) == p.uid {
		return nil
	}
	owner := strconv.Itoa(int(s.Uid))
	if u, err := user.LookupId(owner); err == nil {
		owner = u.Username
	}
	return fmt.Errorf("%s belongs to %s: run the command as root or as that user", dir, owner)
}

// bundleFile creates the file, which only this user can read. The name is empty for standard
// output.
func (p *process) bundleFile(name string) (io.WriteCloser, string, error) {
	if name == "-" {
		return nopCloser{p.out}, "", nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, "", fmt.Errorf("%s exists: remove it, or name another file with --output", name)
	}
	return f, name, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// supportFacts is what is known about a server.
type supportFacts struct {
	p      *process
	o      supportOptions
	server support.Server
	// file has the variables of the packaged unit.
	file    map[string]string
	options []*flags.Option
}

func (p *process) supportFacts(o supportOptions) *supportFacts {
	f := &supportFacts{p: p, o: o, server: support.Find(o.DataDir)}
	if o.DataDir == (&process{}).defaultDataDir(serverName) {
		f.file = support.Variables(packagedVariables)
	}
	parser := flags.NewNamedParser("ingot", flags.None)
	if _, err := parser.AddGroup("flags", "", &upOptions{}); err == nil {
		f.options = optionsOf(parser.Command)
	}
	return f
}

// variable returns the value of a variable and where it is from: the server's process, the file
// of the packaged unit, or this command.
func (f *supportFacts) variable(name string) (value, from string) {
	if value := f.server.Env[name]; value != "" {
		return value, "variable of the server"
	}
	if value := f.file[name]; value != "" {
		return value, packagedVariables
	}
	if f.server.PID == 0 { // otherwise it is the server's own that counts
		return f.p.getenv(name), "variable of this command"
	}
	return "", ""
}

// setting returns the value of a flag of the server and where it is from.
func (f *supportFacts) setting(o *flags.Option) (value, from string) {
	for i, arg := range f.server.Args {
		name, value, inline := strings.Cut(arg, "=")
		switch {
		case name != "--"+o.LongName:
		case inline:
			return value, "flag"
		case o.ValueName == "":
			return "true", "flag"
		case i+1 < len(f.server.Args):
			return f.server.Args[i+1], "flag"
		}
	}
	if o.EnvDefaultKey == "" {
		return "", ""
	}
	if value, from := f.variable(o.EnvDefaultKey); value != "" {
		return value, from
	}
	if other := o.Field().Tag.Get("other-env"); other != "" {
		return f.variable(other)
	}
	return "", ""
}

// option returns the value of a flag of the server by its name.
func (f *supportFacts) option(name string) string {
	for _, o := range f.options {
		if o.LongName == name {
			value, _ := f.setting(o)
			return value
		}
	}
	return ""
}

// secretVariables are variables that have a secret. Only whether they are set is shown.
var secretVariables = []string{
	"INGOT_ADMIN_PASSWORD", "INGOT_ADMIN_CLIENT_SECRET", "INGOT_CLIENT_SECRET", "INGOT_ENCRYPTION_KEY",
	"INGOT_ADMIN_TOKEN", "INGOT_BACKUP_SIGNING_KEY", "INGOT_BACKUP_PASSPHRASE",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
}

// secretFlags are flags whose value is a secret or can contain one.
var secretFlags = []string{"otlp-headers"}

// shownSetting returns the value of a flag as it can be shown: of a URL only the scheme, host and
// path.
func shownSetting(o *flags.Option, value string) string {
	switch {
	case slices.Contains(secretFlags, o.LongName):
		return "set"
	case o.ValueName != "URL":
		return value
	}
	if path, ok := strings.CutPrefix(value, "sqlite:"); ok {
		return "sqlite:" + path
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		return "set"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// configuration lists the flags that are set and the secrets that are. Other variables are left
// out.
func (f *supportFacts) configuration(context.Context) ([]byte, error) {
	var b bytes.Buffer
	for _, o := range f.options {
		if value, from := f.setting(o); value != "" {
			fmt.Fprintf(&b, "--%-30s %s (%s)\n", o.LongName, shownSetting(o, value), from)
		}
	}
	for _, name := range secretVariables {
		if value, from := f.variable(name); value != "" {
			fmt.Fprintf(&b, "%-32s set (%s)\n", name, from)
		}
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "GODEBUG", "TZ", "LANG", "LC_ALL"} {
		if value, from := f.variable(name); value != "" {
			fmt.Fprintf(&b, "%-32s %s (%s)\n", name, value, from)
		}
	}
	if b.Len() == 0 {
		b.WriteString("nothing is set: all flags have their defaults\n")
	}
	return b.Bytes(), nil
}

// secrets returns every secret that this command can know, to be removed wherever it is.
func (f *supportFacts) secrets() []string {
	var all []string
	add := func(value string) {
		if u, err := url.Parse(value); err == nil && u.User != nil {
			password, _ := u.User.Password()
			all = append(all, password)
		}
	}
	for _, name := range secretVariables {
		value, _ := f.variable(name)
		all = append(all, value, f.p.getenv(name), f.file[name])
	}
	for _, o := range f.options {
		value, _ := f.setting(o)
		add(value)
		if slices.Contains(secretFlags, o.LongName) {
			for one := range strings.SplitSeq(value, ",") {
				_, one, _ = strings.Cut(one, "=")
				all = append(all, one)
			}
		}
	}
	add(f.o.DatabaseURL)
	all = append(all, f.adminToken())
	files, _ := filepath.Glob(filepath.Join(f.o.DataDir, datadir.SecretsDir, "*"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			all = append(all, string(text))
		}
	}
	return all
}

// adminToken returns the token of the server's admin address.
func (f *supportFacts) adminToken() string {
	if file := f.option("admin-token-file"); file != "" {
		if token, err := readSecret(file); err == nil {
			return token
		}
	}
	token, _ := f.variable("INGOT_ADMIN_TOKEN")
	return cmp.Or(token, f.p.getenv("INGOT_ADMIN_TOKEN"))
}

// about is the beginning of the index.
func (f *supportFacts) about(now time.Time) string {
	state := "no server uses " + f.o.DataDir
	if f.server.PID > 0 {
		state = fmt.Sprintf("a server (pid %d) uses %s", f.server.PID, f.o.DataDir)
	}
	return fmt.Sprintf("Support bundle of %s\n%s; %s. Logs of the last %v.", strings.TrimSpace(versionText()),
		now.UTC().Format(time.RFC3339), state, f.o.Since)
}

// parts returns everything that is collected.
func (f *supportFacts) parts(since time.Time) []support.Part {
	parts := []support.Part{
		{Name: "version.txt", Collect: func(context.Context) ([]byte, error) { return buildText(), nil }},
		{Name: "configuration.txt", Collect: f.configuration},
		{Name: "doctor.txt", Timeout: time.Minute, Collect: func(ctx context.Context) ([]byte, error) {
			return f.doctor(ctx), ctx.Err()
		}},
		{Name: "database.txt", Timeout: 30 * time.Second, Collect: func(ctx context.Context) ([]byte, error) {
			return system.Tables().Describe(ctx, f.o.DataDir, cmp.Or(f.option("database-url"), f.o.DatabaseURL),
				slog.New(slog.DiscardHandler))
		}},
	}
	return slices.Concat(parts, f.server.Parts(f.adminToken()), support.Machine(f.o.DataDir),
		f.server.Logs(f.o.DataDir, since))
}

// doctor returns the findings of 'ingot doctor' about this machine.
func (f *supportFacts) doctor(ctx context.Context) []byte {
	p := *f.p
	p.getenv = func(name string) string {
		switch name {
		case "INGOT_DATA_DIR":
			return f.o.DataDir
		case "INGOT_ENGINE":
			return "" // this machine, not a cluster, in which Pods would be started
		}
		return f.p.getenv(name)
	}
	var b bytes.Buffer
	for _, one := range p.machine(ctx, core.DoctorOptions{}) {
		fmt.Fprintf(&b, "%-8s %-20s %s\n", one.State, one.Name, one.Found)
		if one.Get != "" {
			fmt.Fprintf(&b, "%-8s %s\n", "", one.Get)
		}
	}
	return b.Bytes()
}

// buildText describes the program: its version, settings and modules.
func buildText() []byte {
	b := bytes.NewBufferString(versionText())
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b.Bytes()
	}
	for _, s := range info.Settings {
		fmt.Fprintf(b, "%s=%s\n", s.Key, s.Value)
	}
	for _, m := range info.Deps {
		fmt.Fprintf(b, "%s %s\n", m.Path, m.Version)
	}
	return b.Bytes()
}
