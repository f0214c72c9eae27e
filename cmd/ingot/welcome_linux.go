package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"ingot/internal/base/datadir"
	"ingot/internal/base/version"
	"ingot/internal/platform/engine"
	"ingot/internal/system"
)

// welcome shows the addresses of the server and what to do next.
func (p *process) welcome(ctx context.Context, s *system.System, c system.Config) {
	e := s.Endpoints()
	fmt.Fprintf(p.out, "Ingot %s is ready.\n\n", version.Version)
	p.loginLink(s, c) // first, because it is what a newcomer clicks
	api, auth := e.API, e.Auth
	if e.Public != "" {
		api = e.Public
		if c.AuthURL == "" {
			auth = api
		}
	}
	scheme, _, _ := strings.Cut(api, "://")
	rows := [][2]string{
		{"Console", api + "/console"},
		{"Platform API", api},
		{"Authorization server", auth},
		{"Notifications", e.Notifications},
		{"ssh", e.SSH},
		{"Admin", e.Admin + " (health, metrics, profiling)"},
		{"Data directory", e.DataDir},
		{"Database", s.Database()},
		{"Apps", scheme + "://NAME.apps." + c.Domain + port(api) + ", " + engineText(s.Engine(ctx))},
	}
	p.table(append(rows, mailRows(c.MailConfig, e)...))
	if fresh := s.Generated(); fresh != (datadir.Generated{}) {
		fmt.Fprintf(p.out, "\nThese secrets are new. They are shown only once, and kept in %s:\n\n", s.SecretsDir())
		rows = nil
		if fresh.AdminPassword != "" {
			rows = append(rows, [2]string{"Password of the user admin", fresh.AdminPassword})
		}
		if fresh.AdminClientSecret != "" {
			rows = append(rows, [2]string{"Secret of the client admin", fresh.AdminClientSecret})
		}
		p.table(rows)
	} else if c.AuthURL == "" {
		fmt.Fprintf(p.out, "\nThe initial secrets of the user admin and the client admin are in %s.\n", s.SecretsDir())
	}
	fmt.Fprint(p.out, "\nWhat to type next:\n\n")
	for _, line := range append(p.here(s, c), next(s, c)...) {
		fmt.Fprintln(p.out, strings.TrimRight("  "+line, " "))
	}
	fmt.Fprintln(p.out)
}

// loginLink shows a link that logs the administrator into the console. It is shown only on a
// terminal: a file would keep it for others.
func (p *process) loginLink(s *system.System, c system.Config) {
	out, ok := p.out.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	link, err := s.LoginLink(ctx)
	if err != nil {
		c.Log.Warn("no login link can be created", "error", err)
	}
	if err == nil && link != "" {
		fmt.Fprintf(p.out, "Open the console as admin, once and within ten minutes:\n\n  %s\n\n", link)
	}
}

// port returns the port of an address with its colon, or "" for the default port.
func port(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" || u.Port() == "80" && u.Scheme == "http" {
		return ""
	}
	return ":" + u.Port()
}

// engineText describes the engine in a few words.
func engineText(d engine.Description) string {
	if d.Held != "" && d.Isolated {
		return "in containers, but NO INSTANCE STARTS until containers work again: " + d.Held
	}
	if d.Held != "" {
		return "as plain processes, but NO INSTANCE STARTS: " + d.Held
	}
	if d.Isolated {
		return "in containers"
	}
	return "as plain processes WITHOUT isolation (" + d.Name + " engine)"
}

// here returns commands to type on this machine, where the client finds the
// server and its initial secrets automatically.
func (p *process) here(s *system.System, c system.Config) []string {
	if _, err := os.Stat(filepath.Join(s.SecretsDir(), "admin-password")); err != nil || c.AuthURL != "" ||
		!c.PasswordGrant {
		return nil
	}
	prefix := ""
	if c.DataDir != p.defaultDataDir(serverName) {
		prefix = "INGOT_DATA_DIR=" + shellQuote(c.DataDir) + " "
	}
	line := prefix + p.typed() + " " + firstCommand(c.Demo, s.FirstSpace())
	return []string{line + "   # on this machine: no login needed", "", "or, with any client:", ""}
}

// typed returns the command that starts this program in a shell: its name if PATH
// has it, and otherwise the path by which it was called.
func (p *process) typed() string {
	own, err := os.Executable()
	found, lookErr := exec.LookPath(serverName)
	if err != nil || lookErr == nil && sameFile(own, found) {
		return serverName
	}
	if filepath.Base(p.name) != p.name {
		return shellQuote(p.name)
	}
	return shellQuote(own)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// next returns the commands for a first login.
func next(s *system.System, c system.Config) []string {
	api := cmp.Or(s.Endpoints().Public, s.Endpoints().API)
	switch {
	case c.AuthURL != "":
		return []string{"cf login -a " + api}
	case !c.PasswordGrant:
		return []string{"cf login -a " + api + " --sso"}
	}
	file := filepath.Join(s.SecretsDir(), "admin-password")
	lines := []string{"cf api " + api, `cf auth admin "$(cat ` + shellQuote(file) + `)"`}
	return append(lines, firstTarget(c.Demo, s.FirstSpace()), "cf push NAME")
}

// firstCommand returns the command of the client that leads to the first push. It targets
// the only space automatically; a server without --demo may have several.
func firstCommand(demo bool, first system.FirstSpace) string {
	switch {
	case demo:
		return "push NAME"
	case first.Org == "":
		return "create-org ORG"
	case first.Space == "":
		return "create-space SPACE -o " + shellQuote(first.Org)
	}
	return "target -o " + shellQuote(first.Org) + " -s " + shellQuote(first.Space)
}

// firstTarget returns the commands of the cf CLI that target a space, after creating one if
// the server has none.
func firstTarget(demo bool, first system.FirstSpace) string {
	org := shellQuote(first.Org)
	switch {
	case demo:
		return "cf target -o demo -s dev"
	case first.Org == "":
		return "cf create-org ORG && cf create-space SPACE -o ORG && cf target -o ORG -s SPACE"
	case first.Space == "":
		return "cf create-space SPACE -o " + org + " && cf target -o " + org + " -s SPACE"
	}
	return "cf target -o " + org + " -s " + shellQuote(first.Space)
}

func (p *process) table(rows [][2]string) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, "  %s\t%s\n", row[0], row[1])
	}
	_ = w.Flush()
}

// shellQuote quotes a word for a shell.
func shellQuote(s string) string {
	plain := !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("/._-", c)
	})
	if plain && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
