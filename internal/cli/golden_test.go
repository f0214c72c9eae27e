package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/cli"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // times are shown in the user's zone
	os.Exit(m.Run())
}

// world is a client with its own home directory.
type world struct {
	api      *fake
	home     string
	dir      string
	env      map[string]string
	in       string
	terminal bool
	asks     bool   // standard input is a terminal
	program  string // its name, ingot when empty
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{api: newFake(t), home: t.TempDir(), dir: t.TempDir(), env: map[string]string{}}
	w.env["INGOT_HOME"], w.env["CF_HOME"] = w.home, w.home
	return w
}

// loggedIn returns a world whose client is logged in and has a target.
func loggedIn(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.changeOf(t, "prod", func(c *config.Config) {
		c.API, c.APIVersion, c.AccessToken, c.RefreshToken = w.api.URL, "3.211.0", userToken(time.Hour), "refresh"
		c.Org, c.Space = config.Named{GUID: guidOrg, Name: "acme"}, config.Named{GUID: guidSpace, Name: "dev"}
		c.Links = config.Links{Login: w.api.URL, UAA: w.api.URL, LogCache: w.api.URL, Notifications: w.api.URL + "/notify"}
	})
	return w
}

// saved returns a context of the client, the current one if the name is empty.
func (w *world) saved(t *testing.T, name string) *config.Config {
	t.Helper()
	c, err := config.Open(func(name string) string { return w.env[name] }).Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) change(t *testing.T, change func(*config.Config)) {
	t.Helper()
	w.changeOf(t, "", change)
}

// changeOf changes a context. The first one is the current one.
func (w *world) changeOf(t *testing.T, name string, change func(*config.Config)) {
	t.Helper()
	c := w.saved(t, name)
	change(c)
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) file(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs the client and returns its output, with the addresses of this run
// replaced.
func (w *world) run(args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = cli.Run(context.Background(), &core.Env{
		Program: cmp.Or(w.program, "ingot"), Args: args, Getenv: func(name string) string { return w.env[name] }, Dir: w.dir,
		In:  strings.NewReader(w.in),
		Out: &o, Err: &e, OutTerminal: w.terminal, InTerminal: w.asks, Version: "ingot 1.2.3", DataDir: "/no/server",
		Now:    func() time.Time { return time.Date(2026, 1, 2, 3, 5, 5, 0, time.UTC) },
		Others: []core.Other{{Name: "up", Summary: "Run the server"}},
		Machine: func(_ context.Context, o core.DoctorOptions) []core.Finding {
			if o.Engine == "kubernetes" {
				return []core.Finding{{Name: "API server", Found: "10.0.0.1, v1.34.3", State: core.FindingOK},
					{Name: "NetworkPolicies", Found: "NOT enforced", State: core.FindingWarn, Get: "use Calico"},
					{Name: "trial Pod", Found: "pull the image", State: core.FindingFail, Get: "check --kubernetes-image"}}
			}
			return []core.Finding{{Name: "runc", State: core.FindingMissing, Get: "apt-get install runc"},
				{Name: "engine", Found: "process", State: core.FindingNote}}
		},
	})
	port := w.api.URL[strings.LastIndex(w.api.URL, ":"):]
	// Golden files have slashes and the messages of Unix; JSON doubles backslashes.
	const sep = string(filepath.Separator)
	doubled := strings.NewReplacer(`\`, `\\`)
	clean := strings.NewReplacer(w.api.URL, "http://api.test", "apps.test"+port, "apps.test:PORT",
		w.dir+sep, "DIR/", doubled.Replace(w.dir+sep), "DIR/", w.dir, "DIR",
		w.home+sep+".cf"+sep, "HOME/.cf/", doubled.Replace(w.home+sep+".cf"+sep), "HOME/.cf/", w.home, "HOME", "\x1b", "^[",
		syscall.ENOENT.Error(), "no such file or directory")
	return accessToken.ReplaceAllString(clean.Replace(o.String()), "bearer TOKEN"), clean.Replace(e.String()), code
}

// accessToken matches access tokens, which differ in every run.
var accessToken = regexp.MustCompile(`bearer [\w.-]+`)

// scenarios are the commands whose output is kept in testdata, one file each: as
// plain text, as on a terminal, and as JSON.
var scenarios = slices.Concat(channelScenarios, digestScenarios, audienceScenarios, figureScenarios, []scenario{
	{"api", []string{"api"}},
	{"target", []string{"target", "-o", "acme", "-s", "dev"}},
	{"login", []string{"login", "-a", "API", "-u", "admin", "-p", "secret", "-o", "acme", "-s", "dev"}},
	{"login-wrong", []string{"login", "-a", "API", "-u", "admin", "-p", "wrong"}},
	{"auth", []string{"auth", "admin", "secret"}},
	{"logout", []string{"logout"}},
	{"orgs", []string{"orgs"}},
	{"spaces", []string{"spaces"}},
	{"create-org", []string{"create-org", "globex"}},
	{"create-space", []string{"create-space", "prod"}},
	{"create-app", []string{"create-app", "shop"}},
	{"apply-manifest", []string{"apply-manifest", "-f", "manifest.yml"}},
	{"push", []string{"push", "-f", "manifest.yml", "-m", "128M"}},
	{"push-nothing", []string{"push", "shop", "--no-manifest", "-p", "empty"}},
	{"start", []string{"start", "shop"}},
	{"stop", []string{"stop", "shop"}},
	{"restart", []string{"restart", "shop"}},
	{"restage", []string{"restage", "shop"}},
	{"dev", []string{"dev", "shop", "--no-manifest", "--strategy", "rolling"}},
	{"push-rolling", []string{"push", "-f", "manifest.yml", "--strategy", "rolling", "-m", "128M", "-i", "3", "-l", "1M",
		"--max-in-flight", "2"}},
	{"restart-rolling", []string{"restart", "shop", "--strategy", "rolling"}},
	{"restart-canary", []string{"restart", "shop", "--strategy", "canary", "--instance-steps", "10,50"}},
	{"restage-rolling", []string{"restage", "shop", "--strategy", "rolling", "--no-wait"}},
	{"cancel-deployment", []string{"cancel-deployment", "shop"}},
	{"continue-deployment", []string{"continue-deployment", "shop"}},
	{"restart-wrong", []string{"restart", "shop", "--max-in-flight", "2"}},
	{"scale", []string{"scale", "shop", "-i", "2", "-m", "64M", "-f"}},
	{"rename", []string{"rename", "shop", "store"}},
	{"delete", []string{"delete", "shop", "-f", "-r"}},
	{"delete-unasked", []string{"delete", "shop"}},
	{"env", []string{"env", "shop"}},
	{"set-env", []string{"set-env", "shop", "GREETING", "good morning"}},
	{"unset-env", []string{"unset-env", "shop", "GREETING"}},
	{"unset-env-none", []string{"unset-env", "shop", "GREETNG"}},
	{"scale-wrong", []string{"scale", "shop", "-m", "1X"}},
	{"push-wrong-size", []string{"push", "shop", "--no-manifest", "-m", "lots"}},
	{"login-stray", []string{"login", "127.0.0.1:8080"}},
	{"logs-since-wrong", []string{"logs", "shop", "--since", "yesterday"}},
	{"logs-since-future", []string{"logs", "shop", "--since", "2999-01-01"}},
	{"apps", []string{"apps"}},
	{"app", []string{"app", "shop"}},
	{"app-requests", []string{"app", "shop", "--requests"}},
	{"app-history", []string{"app", "shop", "--history=24h"}},
	{"app-history-space", []string{"app", "shop", "--history", "24h"}},
	{"app-history-first", []string{"app", "--history", "24h", "shop"}},
	{"app-history-wrong", []string{"app", "shop", "--history", "5h"}},
	{"app-history-two", []string{"app", "shop", "--history=7d", "24h"}},
	{"app-range-alone", []string{"app", "shop", "24h"}},
	{"top", []string{"top", "--once"}},
	{"top-app", []string{"top", "shop", "--once"}},
	{"top-misspelt", []string{"top", "shpo"}},
	{"top-interval", []string{"top", "shop", "--interval", "0"}},
	{"app-misspelt", []string{"app", "shpo"}},
	{"logs-recent", []string{"logs", "shop", "--recent"}},
	{"logs-sidecar", []string{"logs", "shop", "--recent", "--sidecar", "config server", "--process", "web",
		"--no-router"}},
	{"logs-sidecar-task", []string{"logs", "shop", "--recent", "--sidecar", "config server", "--no-router"}},
	{"logs-no-sidecar", []string{"logs", "shop", "--recent", "--sidecar", "config servr"}},
	{"ssh-none", []string{"ssh", "shop"}},
	{"events", []string{"events", "shop"}},
	{"tasks", []string{"tasks", "shop"}},
	{"task", []string{"task", "shop", "2"}},
	{"task-none", []string{"task", "shop", "9"}},
	{"run-task", []string{"run-task", "shop", "--command", "./migrate", "--name", "migrate", "-m", "64M", "-k", "1G"}},
	{"run-task-wait", []string{"run-task", "shop", "--process", "web", "--name", "good", "--wait"}},
	{"run-task-failed", []string{"run-task", "shop", "--command", "false", "--name", "bad", "--wait"}},
	{"run-task-nothing", []string{"run-task", "shop"}},
	{"terminate-task", []string{"terminate-task", "shop", "4"}},
	{"terminate-task-over", []string{"terminate-task", "shop", "1"}},
	{"push-task", []string{"push", "-f", "manifest.yml", "--task"}},
	{"routes", []string{"routes"}},
	{"map-route", []string{"map-route", "shop", "apps.test", "-n", "dump", "--app-port", "8082"}},
	{"map-route-sidecar", []string{"map-route", "shop", "apps.test", "-n", "proxy", "--sidecar", "config server"}},
	{"unmap-route", []string{"unmap-route", "shop", "apps.test", "-n", "shop"}},
	{"marketplace", []string{"marketplace"}},
	{"marketplace-plans", []string{"marketplace", "-e", "postgres"}},
	{"services", []string{"services"}},
	{"service", []string{"service", "db"}},
	{"create-service", []string{"create-service", "postgres", "small", "db", "-t", "sql", "-c", `{"size":1}`}},
	{"create-service-none", []string{"create-service", "postgres", "huge", "db"}},
	{"delete-service", []string{"delete-service", "db", "-f", "--wait"}},
	{"bind-service", []string{"bind-service", "shop", "db"}},
	{"unbind-service", []string{"unbind-service", "shop", "db"}},
	{"rotate-credentials", []string{"rotate-credentials", "db", "--keys"}},
	{"rotate-credentials-grace", []string{"rotate-credentials", "db", "--grace", "8000h"}},
	{"rotate-credentials-help", []string{"rotate-credentials", "--help"}},
	{"create-service-key", []string{"create-service-key", "db", "key"}},
	{"service-key", []string{"service-key", "db", "key"}},
	{"open", []string{"open", "shop", "--print"}},
	{"curl", []string{"curl", "-X", "POST", "/v3/routes/new-route/destinations", "-d", `{"destinations":[]}`}},
	{"doctor", []string{"doctor"}},
	{"doctor-cluster", []string{"doctor", "--engine", "kubernetes"}},
	{"docs-help", []string{"docs", "--help"}},
	{"docs-none", []string{"docs", "xyzzyx"}},
	{"completion", []string{"completion", "bash"}},
	{"notifications-register", []string{"notifications", "register", "disk-full", "--critical", "--template", "template-1",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-kinds", []string{"notifications", "kinds", "--client", "sender", "--client-secret", "x"}},
	{"notifications-templates", []string{"notifications", "templates", "--client", "sender", "--client-secret", "x"}},
	{"notifications-create-template", []string{"notifications", "templates", "--create", "plain", "--text", "@mail.txt",
		"--assign", "disk-full", "--client", "sender", "--client-secret", "x"}},
	{"notifications-send", []string{"notifications", "send", "disk-full", "--everyone", "--text", "tidy up", "--client",
		"sender", "--client-secret", "x"}},
	{"notifications-send-later", []string{"notifications", "send", "disk-full", "--everyone",
		"--text", "tidy up", "--at", "2026-12-24T18:00:00+01:00", "--client", "sender", "--client-secret", "x"}},
	{"notifications-channels", []string{"notifications", "channels", "disk-full", "--set", "email,inbox",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-workflow", []string{"notifications", "workflow", "disk-full", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-workflow-set", []string{"notifications", "workflow", "disk-full", "--set",
		`{"steps":[{"channel":"inbox"}]}`, "--client", "sender", "--client-secret", "x"}},
	{"notifications-workflow-delete", []string{"notifications", "workflow", "disk-full", "--delete", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-workflow-wrong", []string{"notifications", "workflow", "disk-full", "--set", "{"}},
	{"notifications-timeline", []string{"notifications", "timeline", "message-1", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-destinations", []string{"notifications", "destinations", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-destinations-set", []string{"notifications", "destinations", "--set", "webhook",
		"--to", "https://app.example.com/in", "--client", "sender", "--client-secret", "x"}},
	{"notifications-destinations-delete", []string{"notifications", "destinations", "--delete", "chat",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-destinations-wrong", []string{"notifications", "destinations", "--set", "chat"}},
	{"notifications-inbox-token", []string{"notifications", "inbox-token", "user-guid", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-inbox-origins", []string{"notifications", "inbox-origins", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-repeat", []string{"notifications", "repeat", "weekly", "disk-full", "--cron", "0 9 * * mon", "--zone",
		"Europe/Berlin", "--everyone", "--text", "tidy up", "--client", "sender", "--client-secret", "x"}},
	{"notifications-repeat-no-cron", []string{"notifications", "repeat", "weekly", "disk-full", "--everyone",
		"--text", "x"}},
	{"notifications-recurring", []string{"notifications", "recurring", "--client", "sender", "--client-secret", "x"}},
	{"notifications-recurring-show", []string{"notifications", "recurring", "--show", "weekly", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-recurring-pause", []string{"notifications", "recurring", "--pause", "weekly", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-recurring-delete", []string{"notifications", "recurring", "--delete", "weekly", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-cancel", []string{"notifications", "cancel", "send-1", "--client", "sender", "--client-secret", "x"}},
	{"notifications-send-no-recipient", []string{"notifications", "send", "disk-full", "--text", "tidy up"}},
	{"notifications-status", []string{"notifications", "status", "message-1", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-mail-state", []string{"notifications", "mail-state", "--client", "sender", "--client-secret", "x"}},
	{"notifications-check-domain", []string{"notifications", "check-domain", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-variants", []string{"notifications", "variants", "template-1", "--set", "de", "--text", "Hallo",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-delete-variant", []string{"notifications", "variants", "template-1", "--delete", "fr",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-versions", []string{"notifications", "versions", "template-1", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-versions-diff", []string{"notifications", "versions", "template-1", "--diff", "2",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-rollback", []string{"notifications", "versions", "template-1", "--rollback", "1", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-partials", []string{"notifications", "partials", "--client", "sender", "--client-secret", "x"}},
	{"notifications-partial", []string{"notifications", "partials", "--show", "footer", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-set-partial", []string{"notifications", "partials", "--set", "footer", "--locale", "de",
		"--text", "Bis bald", "--client", "sender", "--client-secret", "x"}},
	{"notifications-delete-partial", []string{"notifications", "partials", "--delete", "footer", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-partials-wrong", []string{"notifications", "partials", "--locale", "de"}},
	{"notifications-missing-variants", []string{"notifications", "missing-variants", "--locales", "de,fr",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-messages", []string{"notifications", "messages", "--email", "dora@example.org", "--channel", "email",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-recipient-data", []string{"notifications", "recipient-data", "--email", "dora@example.org",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-recipient-nobody", []string{"notifications", "recipient-data"}},
	{"notifications-erase-recipient", []string{"notifications", "erase-recipient", "--user", "user-guid", "--all-clients",
		"--force", "--client", "sender", "--client-secret", "x"}},
	{"notifications-usage", []string{"notifications", "usage", "--client", "sender", "--client-secret", "x"}},
	{"notifications-preferences", []string{"notifications", "preferences", "--unsubscribe", "sender/offers",
		"--off", "sender/news/email", "--on", "sender/type-1/email"}},
	{"notifications-preferences-of", []string{"notifications", "preferences", "--user", "mailto:dora@example.org"}},
	{"notifications-preferences-wrong", []string{"notifications", "preferences", "--off", "sender/news"}},
	{"passwd-unasked", []string{"passwd"}},
	{"oauth-token", []string{"oauth-token"}},
	{"git-credential", []string{"git-credential", "get"}},
	{"push-droplet", []string{"push", "shop", "--no-manifest", "--droplet", "shop.tgz"}},
	{"push-no-droplet", []string{"push", "shop", "--no-manifest", "--droplet", "mail.txt"}},
	{"restart-app-instance", []string{"restart-app-instance", "shop", "0"}},
	{"download-droplet", []string{"download-droplet", "shop", "--path", "out.tgz"}},
	{"download-droplet-there", []string{"download-droplet", "shop", "--path", "mail.txt"}},
	{"set-droplet", []string{"set-droplet", "shop", "droplet-guid"}},
	{"enable-ssh", []string{"enable-ssh", "shop"}},
	{"disable-ssh", []string{"disable-ssh", "shop"}},
	{"ssh-enabled", []string{"ssh-enabled", "shop"}},
	{"droplets", []string{"droplets", "shop"}},
	{"deploy-git", []string{"deploy-git", "shop", "https://git.example.com/shop.git", "--branch", "main"}},
	{"deploy-git-again", []string{"deploy-git", "shop", "--no-wait"}},
	{"git-source", []string{"git-source", "shop"}},
	{"create-git-webhook", []string{"create-git-webhook", "shop"}},
	{"delete-git-source", []string{"delete-git-source", "shop", "-f"}},
	{"packages", []string{"packages", "shop"}},
	{"labels", []string{"labels", "app", "shop"}},
	{"labels-of-nothing", []string{"labels", "moon", "shop"}},
	{"set-label", []string{"set-label", "app", "shop", "team=blue", "tier=1"}},
	{"unset-label", []string{"unset-label", "app", "shop", "team"}},
	{"create-route", []string{"create-route", "apps.test", "-n", "dump"}},
	{"delete-route", []string{"delete-route", "apps.test", "-n", "shop", "-f"}},
	{"delete-route-none", []string{"delete-route", "apps.test", "-n", "nothing", "-f"}},
	{"domains", []string{"domains"}},
	{"update-service", []string{"update-service", "db", "-p", "small", "-t", "sql,new", "--wait"}},
	{"update-service-nothing", []string{"update-service", "db"}},
	{"rename-service", []string{"rename-service", "db", "store"}},
	{"create-user-provided-service", []string{"create-user-provided-service", "api", "-p", `{"url":"https://api.test"}`}},
	{"update-user-provided-service", []string{"update-user-provided-service", "db", "-t", "x"}},
	{"service-keys", []string{"service-keys", "db"}},
	{"delete-service-key", []string{"delete-service-key", "db", "key", "-f"}},
	{"delete-service-key-none", []string{"delete-service-key", "db", "kee", "-f"}},
	{"delete-org", []string{"delete-org", "acme", "-f"}},
	{"delete-space", []string{"delete-space", "dev", "-f"}},
	{"create-user", []string{"create-user", "bob", "secret"}},
	{"delete-user", []string{"delete-user", "admin", "-f"}},
	{"org-users", []string{"org-users", "acme"}},
	{"space-users", []string{"space-users", "acme", "dev"}},
	{"set-org-role", []string{"set-org-role", "ann", "acme", "orgmanager"}},
	{"set-org-role-wrong", []string{"set-org-role", "ann", "acme", "King"}},
	{"unset-org-role", []string{"unset-org-role", "admin", "acme", "OrgManager"}},
	{"set-space-role", []string{"set-space-role", "ann", "acme", "dev", "SpaceDeveloper"}},
	{"unset-space-role", []string{"unset-space-role", "stranger", "acme", "dev", "SpaceDeveloper"}},
	{"clients", []string{"clients"}},
	{"client", []string{"client", "sender"}},
	{"client-none", []string{"client", "sendr"}},
	{"create-client", []string{"create-client", "mailer", "--authorities", "notifications.write,emails.write", "--secret",
		"hidden-word"}},
	{"create-client-exists", []string{"create-client", "sender", "--secret", "hidden-word"}},
	{"update-client", []string{"update-client", "sender", "--authorities", "emails.write",
		"--access-token-validity", "600"}},
	{"update-client-nothing", []string{"update-client", "sender"}},
	{"set-client-secret", []string{"set-client-secret", "sender", "--add", "--secret", "hidden-word"}},
	{"set-client-secret-old", []string{"set-client-secret", "sender", "--delete-old"}},
	{"delete-client", []string{"delete-client", "sender", "-f"}},
	{"delete-client-none", []string{"delete-client", "nothing", "-f"}},
	{"revisions", []string{"revisions", "shop"}},
	{"revision", []string{"revision", "shop"}},
	{"revision-version", []string{"revision", "shop", "--version", "1"}},
	{"revision-none", []string{"revision", "shop", "--version", "9"}},
	{"rollback", []string{"rollback", "shop", "--version", "1", "-f"}},
	{"rollback-asks", []string{"rollback", "shop", "--version", "1"}},
	{"rollback-wrong", []string{"rollback", "shop", "--version", "0"}},
	{"diff", []string{"diff", "shop", "1", "2"}},
	{"diff-deployed", []string{"diff", "shop", "1"}},
	{"diff-same", []string{"diff", "shop", "2", "2"}},
	{"buildpacks", []string{"buildpacks"}},
	{"stacks", []string{"stacks"}},
	{"feature-flags", []string{"feature-flags"}},
	{"enable-feature-flag", []string{"enable-feature-flag", "user_org_creation"}},
	{"disable-feature-flag", []string{"disable-feature-flag", "no_such_flag"}},
	{"service-brokers", []string{"service-brokers"}},
	{"create-service-broker", []string{"create-service-broker", "mine", "user", "hidden", "https://broker.test"}},
	{"delete-service-broker", []string{"delete-service-broker", "local", "-f"}},
	{"enable-service-access", []string{"enable-service-access", "postgres", "-o", "acme"}},
	{"disable-service-access", []string{"disable-service-access", "postgres"}},
	{"create-package", []string{"create-package", "shop", "-p", "app"}},
	{"create-package-both", []string{"create-package", "shop", "-p", "app", "-o", "nginx"}},
	{"stage-package", []string{"stage-package", "shop"}},
	{"copy-source", []string{"copy-source", "shop", "shop", "--no-restart"}},
	{"create-app-manifest", []string{"create-app-manifest", "shop"}},
	{"get-health-check", []string{"get-health-check", "shop"}},
	{"get-readiness-health-check", []string{"get-readiness-health-check", "shop"}},
	{"set-health-check", []string{"set-health-check", "shop", "http", "--endpoint", "/health"}},
	{"set-health-check-wrong", []string{"set-health-check", "shop", "ping"}},
	{"route", []string{"route", "apps.test", "-n", "shop"}},
	{"route-none", []string{"route", "apps.test", "-n", "nothing"}},
	{"check-route", []string{"check-route", "apps.test", "-n", "nothing"}},
	{"update-route", []string{"update-route", "apps.test", "-n", "shop", "-o", "loadbalancing=least-connection", "-r",
		"hash_header"}},
	{"update-route-nothing", []string{"update-route", "apps.test", "-n", "shop"}},
	{"update-destination", []string{"update-destination", "shop", "apps.test", "-n", "shop", "--app-protocol", "http2"}},
	{"delete-orphaned-routes", []string{"delete-orphaned-routes", "-f"}},
	{"share-route", []string{"share-route", "apps.test", "-n", "shop", "-s", "dev"}},
	{"unshare-route", []string{"unshare-route", "apps.test", "-n", "shop", "-s", "dev"}},
	{"move-route", []string{"move-route", "apps.test", "-n", "shop", "-s", "dev"}},
	{"create-private-domain", []string{"create-private-domain", "acme", "shop.test"}},
	{"delete-private-domain", []string{"delete-private-domain", "apps.test", "-f"}},
	{"share-private-domain", []string{"share-private-domain", "acme", "apps.test"}},
	{"unshare-private-domain", []string{"unshare-private-domain", "acme", "apps.test", "-f"}},
	{"create-shared-domain", []string{"create-shared-domain", "tcp.test", "--router-group", "default-tcp"}},
	{"delete-shared-domain", []string{"delete-shared-domain", "apps.test", "-f"}},
	{"router-groups", []string{"router-groups"}},
	{"upgrade-service", []string{"upgrade-service", "db", "-f"}},
	{"cleanup-outdated-service-bindings", []string{"cleanup-outdated-service-bindings", "shop", "-f"}},
	{"share-service", []string{"share-service", "db", "-s", "dev"}},
	{"unshare-service", []string{"unshare-service", "db", "-s", "dev", "-f"}},
	{"bind-route-service", []string{"bind-route-service", "apps.test", "db", "-n", "shop"}},
	{"unbind-route-service", []string{"unbind-route-service", "apps.test", "db", "-n", "shop", "-f"}},
	{"purge-service-instance", []string{"purge-service-instance", "db", "-f"}},
	{"purge-service-offering", []string{"purge-service-offering", "postgres", "-f"}},
	{"update-service-broker", []string{"update-service-broker", "local", "user", "hidden", "https://broker.test"}},
	{"rename-service-broker", []string{"rename-service-broker", "local", "mine"}},
	{"service-access", []string{"service-access"}},
	{"org", []string{"org", "acme"}},
	{"org-guid", []string{"org", "acme", "--guid"}},
	{"rename-org", []string{"rename-org", "acme", "globex"}},
	{"space", []string{"space", "dev", "--security-group-rules"}},
	{"rename-space", []string{"rename-space", "dev", "test"}},
	{"allow-space-ssh", []string{"allow-space-ssh", "dev"}},
	{"disallow-space-ssh", []string{"disallow-space-ssh", "dev"}},
	{"space-ssh-allowed", []string{"space-ssh-allowed", "dev"}},
	{"org-quotas", []string{"org-quotas"}},
	{"org-quota", []string{"org-quota", "large"}},
	{"create-org-quota", []string{"create-org-quota", "small", "-m", "1G", "-i", "-1", "-l", "16K",
		"--allow-paid-service-plans"}},
	{"create-org-quota-wrong", []string{"create-org-quota", "small", "-m", "lots"}},
	{"update-org-quota", []string{"update-org-quota", "large", "-r", "-1"}},
	{"update-org-quota-nothing", []string{"update-org-quota", "large"}},
	{"delete-org-quota", []string{"delete-org-quota", "large", "-f"}},
	{"set-org-quota", []string{"set-org-quota", "acme", "large"}},
	{"space-quotas", []string{"space-quotas"}},
	{"space-quota", []string{"space-quota", "large"}},
	{"create-space-quota", []string{"create-space-quota", "small"}},
	{"update-space-quota", []string{"update-space-quota", "large", "--disallow-paid-service-plans"}},
	{"delete-space-quota", []string{"delete-space-quota", "nothing", "-f"}},
	{"set-space-quota", []string{"set-space-quota", "dev", "large"}},
	{"unset-space-quota", []string{"unset-space-quota", "dev", "large"}},
	{"security-groups", []string{"security-groups"}},
	{"security-group", []string{"security-group", "database"}},
	{"create-security-group", []string{"create-security-group", "world", "rules.json"}},
	{"create-security-group-wrong", []string{"create-security-group", "world", "mail.txt"}},
	{"update-security-group", []string{"update-security-group", "database", "rules.json"}},
	{"delete-security-group", []string{"delete-security-group", "database", "-f"}},
	{"bind-security-group", []string{"bind-security-group", "database", "acme", "--space", "dev", "--lifecycle",
		"staging"}},
	{"unbind-security-group", []string{"unbind-security-group", "database", "acme", "dev"}},
	{"running-security-groups", []string{"running-security-groups"}},
	{"bind-running-security-group", []string{"bind-running-security-group", "database"}},
	{"unbind-running-security-group", []string{"unbind-running-security-group", "database"}},
	{"staging-security-groups", []string{"staging-security-groups"}},
	{"bind-staging-security-group", []string{"bind-staging-security-group", "database"}},
	{"unbind-staging-security-group", []string{"unbind-staging-security-group", "databse"}},
	{"network-policies", []string{"network-policies"}},
	{"add-network-policy", []string{"add-network-policy", "shop", "shop", "--port", "8080-8090"}},
	{"remove-network-policy", []string{"remove-network-policy", "shop", "shop", "--protocol", "udp", "--port", "53"}},
	{"remove-network-policy-wrong", []string{"remove-network-policy", "shop", "shop", "--port", "9-8"}},
	{"isolation-segments", []string{"isolation-segments"}},
	{"create-isolation-segment", []string{"create-isolation-segment", "gpu"}},
	{"delete-isolation-segment", []string{"delete-isolation-segment", "gpu", "-f"}},
	{"enable-org-isolation", []string{"enable-org-isolation", "acme", "gpu"}},
	{"disable-org-isolation", []string{"disable-org-isolation", "acme", "gpu"}},
	{"set-org-default-isolation-segment", []string{"set-org-default-isolation-segment", "acme", "gpu"}},
	{"reset-org-default-isolation-segment", []string{"reset-org-default-isolation-segment", "acme"}},
	{"set-space-isolation-segment", []string{"set-space-isolation-segment", "dev", "gpu"}},
	{"reset-space-isolation-segment", []string{"reset-space-isolation-segment", "dev"}},
	{"create-buildpack", []string{"create-buildpack", "mine", "app", "1"}},
	{"create-buildpack-wrong", []string{"create-buildpack", "mine", "app", "first"}},
	{"update-buildpack", []string{"update-buildpack", "binary_buildpack", "-i", "2", "--lock"}},
	{"delete-buildpack", []string{"delete-buildpack", "binary_buildpack", "-f"}},
	{"stack", []string{"stack", "cflinuxfs4"}},
	{"update-stack", []string{"update-stack", "cflinuxfs4", "--state", "deprecated", "--reason", "Use a newer one."}},
	{"feature-flag", []string{"feature-flag", "task_creation"}},
	{"running-environment-variable-group", []string{"running-environment-variable-group"}},
	{"staging-environment-variable-group", []string{"staging-environment-variable-group"}},
	{"set-running-environment-variable-group", []string{"set-running-environment-variable-group", `{"REGION":"south"}`}},
	{"set-staging-environment-variable-group", []string{"set-staging-environment-variable-group", "nothing"}},
	{"ssh-code", []string{"ssh-code"}},
	{"missing-argument", []string{"set-org-quota", "acme"}},
	{"stray-argument", []string{"org", "acme", "globex"}},
	{"contexts", []string{"contexts"}},
	{"context", []string{"context"}},
	{"context-list", []string{"context", "list"}},
	{"context-add", []string{"context", "add", "staging", "API"}},
	{"context-add-reserved", []string{"context", "add", "local", "API"}},
	{"context-add-existing", []string{"context", "add", "prod", "API"}},
	{"context-use", []string{"context", "use", "prod"}},
	{"context-use-unknown", []string{"context", "use", "prd"}},
	{"context-show", []string{"context", "show"}},
	{"context-rename", []string{"context", "rename", "prod", "live"}},
	{"context-remove", []string{"context", "remove", "prod", "-f"}},
	{"context-remove-unconfirmed", []string{"context", "remove", "prod"}},
	{"context-export", []string{"context", "export"}},
	{"context-unknown", []string{"apps", "--context", "nowhere"}},
	{"context-cf-without-target", []string{"apps", "--context", "cf"}},
	{"help", []string{"help"}},
	{"help-push", []string{"help", "push"}},
	{"help-notifications", []string{"help", "notifications"}},
	{"unknown-command", []string{"psh"}},
	{"unknown-command-elsewhere", []string{"deploy"}},
	{"unknown-command-of-cf", []string{"add-plugin-repo"}},
	{"version", []string{"--version"}},
	{"notifications-wrong", []string{"notifications", "foo"}},
	{"unknown-flag", []string{"push", "--no-sart"}},
})

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, form := range []string{"plain", "terminal", "json"} {
				w := loggedIn(t)
				w.terminal = form == "terminal"
				if strings.HasSuffix(s.args[0], "-deployment") {
					w.api.deploying = "deployment-guid"
				}
				w.file(t, "manifest.yml",
					"applications:\n- name: shop\n  path: app\n  env: {FLAG: yes}\n  sidecars:\n  - {name: config server, "+
						"process_types: [web], command: ./config}\n")
				w.file(t, "app/shop", "#!/bin/sh\nexec sleep 1000\n")
				w.file(t, "shop.tgz", "\x1f\x8bdroplet")
				w.file(t, "mail.txt", "Dear {{.Text}}")
				w.file(t, "rules.json", `[{"protocol":"tcp","destination":"10.0.0.0/8","ports":"443"}]`)
				if err := os.Mkdir(filepath.Join(w.dir, "empty"), 0o755); err != nil {
					t.Fatal(err)
				}
				var args []string
				for _, a := range s.args {
					args = append(args, strings.ReplaceAll(a, "API", w.api.URL))
				}
				if form == "json" {
					args = append(args, "--json")
				}
				out, errs, code := w.run(args...)
				fmt.Fprintf(&got, "== %s, exit code %d\n-- standard output\n%s-- standard error\n%s", form, code, out, errs)
			}
			path := filepath.Join("testdata", "golden", s.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("%s differs (go test ./internal/cli -update writes it anew):\n%s", path, got.String())
			}
		})
	}
}

// Every command has its golden file, an example, and help that names its flags.
func TestEveryCommandIsCovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	covered := map[string]bool{}
	for _, s := range scenarios {
		covered[s.args[0]] = true
		if len(s.args) > 1 {
			covered[s.args[0]+" "+s.args[1]] = true
		}
	}
	overview, _, _ := w.run("help")
	n := 0
	for _, name := range cli.Names() {
		n++
		help, _, code := w.run(append(strings.Fields(name), "--help")...)
		if !covered[name] {
			t.Errorf("%s has no golden file", name)
		}
		if code != 0 || !strings.Contains(help, "Examples:") && name != "notifications" && name != "context" {
			t.Errorf("%s: the help has no examples:\n%s", name, help)
		}
		if !strings.Contains(name, " ") && !strings.Contains(overview, "\n  "+name+" ") {
			t.Errorf("%s is not listed", name)
		}
	}
	if n < 170 {
		t.Errorf("only %d commands", n)
	}
}
