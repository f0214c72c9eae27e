package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A set is a list of packages by their path in the module. "internal/base/db" is
// only that package, "internal/base/db/..." also everything below it.
type set []string

func (s set) has(path string) bool {
	return slices.ContainsFunc(s, func(pattern string) bool { return match(pattern, path) })
}

func match(pattern, path string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == tree || strings.HasPrefix(path, tree+"/")
	}
	return path == pattern
}

// The wings, each of which could run in its own process, and the parts inside
// them. Packages that do not exist yet are allowed here.
var (
	base     = set{"internal/base/..."}
	server   = set{"internal/server/..."}
	auth     = set{"internal/auth/..."}
	notify   = set{"internal/notify/..."}
	platform = set{"internal/platform/..."}
	broker   = set{"internal/broker/..."}
	client   = set{"internal/cli/..."}
	console  = set{"internal/console/..."}
	system   = set{"internal/system/..."}
	wings    = union(auth, notify, platform, broker, client, console)

	// initPackages are linked into ingot-init.
	initPackages = set{
		"cmd/ingot-init/...", "internal/platform/instance/initproto/...", "internal/platform/instance/agentproto/...",
		"internal/platform/instance/agentserver/...",
		"internal/platform/instance/homedir/...",
	}

	stores  = set{"internal/auth/authdb/...", "internal/notify/notifydb/...", "internal/platform/platformdb/..."}
	engines = set{"internal/platform/engine/process/...", "internal/platform/engine/container/...",
		"internal/platform/engine/kubernetes/..."}
	channels = set{"internal/notify/mail/..."}
	adapters = union(stores, engines, channels)
	handlers = set{"internal/platform/api/...", "internal/notify/httpv1/...", "internal/notify/httpv2/...",
		"internal/notify/httpext/..."}
	services = set{
		"internal/auth", "internal/notify", "internal/notify/actions", "internal/notify/audience", "internal/notify/delivery",
		"internal/notify/template",
		"internal/platform/actions/...", "internal/platform/run/controller/...", "internal/platform/run/signals/...",
		"internal/platform/run/census/...", "internal/platform/services/...", "internal/platform/run/staging/...",
		"internal/platform/alerts/...", "internal/platform/run/cleanup/...", "internal/platform/instance/instancenet/...",
		"internal/platform/instance/dns/...", "internal/platform/manifest/...", "internal/platform/edge/sshd/...",
		"internal/platform/logs/...", "internal/platform/edge/router/...", "internal/platform/edge/routetable/...",
		"internal/platform/edge/certnames/...",
	}
)

func union(sets ...set) set { return slices.Concat(sets...) }

// A rule restricts imports. It applies to the packages in from that are not in
// except, and forbids either those in never, or all that are not in only.
type rule struct {
	name   string
	reason string

	from   set
	except set

	never set  // may not import these
	only  set  // may import only these packages of this module, and those in from
	std   bool // with only: may not import other modules

	// apart: these sets may not import each other.
	apart []set
	// tests: the rule applies to the imports of tests, too. Usually it does not,
	// because a test may combine packages.
	tests bool
}

var rules = []rule{
	{
		name: "wings do not import each other",
		reason: "authorization server, notification service, platform, broker and client communicate over HTTP with " +
			"tokens, or through interfaces that the caller owns, so that each can run separately",
		apart: []set{auth, notify, platform, broker, client, console},
	},
	{
		name:   "the base imports no wing",
		reason: "every wing uses it, so it cannot depend on one of them",
		from:   base, never: union(wings, server, system),
	},
	{
		name: "what serves the process imports the base only",
		reason: "it is about sockets, certificates, disks and other servers, not about apps or messages; the system " +
			"connects it with the wings",
		from: server, only: base,
	},
	{
		name: "wings do not import what serves the process",
		reason: "a wing gets listeners, certificates and the state of the disk from the system, so that it can run in " +
			"another process",
		from: wings, never: server,
	},
	{
		name: "parts of the console do not import each other",
		reason: "what two of them need belongs to internal/console/page; services also fill a page of an app, and only " +
			"home shows all parts",
		apart: []set{
			{"internal/console/apps", "internal/console/services"}, {"internal/console/notifications"},
			{"internal/console/access"},
			{"internal/console/audit"}, {"internal/console/system"}, {"internal/console/docs"},
		},
	},
	{
		name: "domain types import only errors and patterns",
		reason: "the domain types and their rules do no I/O and do not depend on their callers, so that every package can " +
			"share them",
		from: set{"internal/platform"}, only: set{"internal/base/fault", "internal/base/pattern"},
	},
	{
		name: "fault and token import nothing else",
		reason: "every API checks tokens and creates errors with them, even in another process, so they must not bring " +
			"other dependencies",
		from: set{"internal/base/token/...", "internal/base/fault/..."}, only: set{"internal/base/fault/..."},
	},
	{
		name:   "ingot-init is small",
		reason: "it is PID 1 in every app instance, beside untrusted code: it has to be tiny, static and easy to review",
		from:   initPackages, only: set{"internal/base/background"}, std: true,
	},
	{
		name:   "background imports nothing else",
		reason: "every package starts its goroutines with it, including those linked into ingot-init",
		from:   set{"internal/base/background"}, only: set{"internal/base/background"}, std: true,
	},
	{
		name: "commands of different subjects do not import each other",
		reason: "what two subjects need belongs to internal/cli/core; only push starts apps, and services and access show " +
			"routes and security groups",
		apart: []set{
			{"internal/cli/push", "internal/cli/apps"}, {"internal/cli/services", "internal/cli/access", "internal/cli/routes"},
			{"internal/cli/notifications"}, {"internal/cli/admin"}, {"internal/cli/docs"},
		},
	},
	{
		name:   "ingot-sftp is small",
		reason: "it runs in every app instance that files are copied to or from, beside untrusted code",
		from:   set{"cmd/ingot-sftp/...", "internal/platform/edge/sshd/sftp/..."},
		only:   set{"internal/platform/edge/sshd/sftp/..."}, std: true,
	},
	{
		name:   "adapters do not import HTTP handlers",
		reason: "an adapter serves any caller; a handler that it imports could not be removed or replaced",
		from:   adapters, never: handlers,
	},
	{
		name:   "adapters do not import each other",
		reason: "each can be replaced or left out on its own; only the system knows which are in use",
		apart:  []set{stores[0:1], stores[1:2], stores[2:3], {"internal/platform/engine/..."}, channels},
	},
	{
		name:   "engines do not import each other",
		reason: "shared code belongs to the engine interface or to ingot-init, so that the next engine can use it too",
		apart:  []set{engines[0:1], engines[1:2], engines[2:3]},
	},
	{
		name: "no typed Kubernetes clients",
		reason: "the typed clients and informers of client-go are 129 packages that make the program 25 MB larger; the " +
			"dynamic client and the informer of tools/cache do the same",
		from: set{"internal/...", "cmd/..."},
		never: set{"k8s.io/client-go/informers/...", "k8s.io/client-go/kubernetes/...",
			"k8s.io/client-go/dynamic/dynamicinformer/...", "k8s.io/api/..."},
		tests: true,
	},
	{
		name: "services do not import HTTP handlers, adapters or the system",
		reason: "a service defines the interfaces it needs and gets the implementations from the system, so that it can be " +
			"tested and moved without them",
		from: services, never: union(handlers, adapters, system),
	},
	{
		name:   "only programs import the system",
		reason: "it depends on everything, and so would every package that imports it",
		from:   set{"..."}, except: union(system, set{"cmd/ingot/...", "e2e/...", "bench/..."}),
		never: system, tests: true,
	},
}

func TestImports(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			report(t, r.reason, r.check(all))
		})
	}
}

// check returns a line for each import that the rule forbids.
func (r rule) check(all []pkg) []string {
	var violations []string
	for _, p := range all {
		imports := p.Imports
		if r.tests {
			imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		}
		for _, imported := range slices.Compact(slices.Sorted(slices.Values(imports))) {
			if why := r.forbids(p.path(), imported); why != "" {
				violations = append(violations, fmt.Sprintf("%s imports %s: %s", p.path(), inModule(imported), why))
			}
		}
	}
	return violations
}

// forbids returns why one package may not import another, or "" if it may.
func (r rule) forbids(from, importPath string) string {
	to := inModule(importPath)
	ours := to != importPath
	for i, part := range r.apart {
		for j, other := range r.apart {
			if i != j && ours && part.has(from) && other.has(to) && !part.has(to) {
				return r.name
			}
		}
	}
	if !r.in(from) {
		return ""
	}
	switch {
	case r.never.has(to):
		return r.name
	case ours && r.only != nil && !r.only.has(to) && !r.from.has(to):
		return r.name + ", of this module it may import only " + strings.Join(r.only, ", ")
	case !ours && r.std && !standard(importPath):
		return r.name + ", it may import the standard library only"
	}
	return ""
}

// in reports whether the rule applies to a package.
func (r rule) in(path string) bool {
	all := len(r.from) == 1 && r.from[0] == "..."
	return (all || r.from.has(path)) && !r.except.has(path)
}

// standard reports whether a path is in the standard library: its first element,
// unlike that of a module, has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func TestImportsChecker(t *testing.T) {
	t.Parallel()
	// Each import, and the rules that it violates.
	for _, test := range []struct {
		from, to string
		want     []string
	}{
		{"internal/platform", "ingot/internal/base/fault", nil},
		{"internal/platform", "time", nil},
		{"internal/platform", "ingot/internal/base/token", []string{"domain types import only errors and patterns"}},
		{"internal/platform", "ingot/internal/platform/actions", []string{"domain types import only errors and patterns"}},
		{"internal/base/fault", "ingot/internal/base/logging", []string{"fault and token import nothing else"}},
		{"internal/base/token", "ingot/internal/base/fault", nil},
		{"internal/base/token", "github.com/go-jose/go-jose/v4", nil},
		{"internal/base/token", "ingot/internal/platform", []string{"the base imports no wing",
			"fault and token import nothing else"}},
		{"cmd/ingot-init", "ingot/internal/platform/instance/initproto", nil},
		{"cmd/ingot-init", "ingot/internal/platform/instance/agentserver", nil},
		{"internal/platform/instance/agentserver", "ingot/internal/platform/instance/homedir", nil},
		{"internal/platform/instance/agentserver", "ingot/internal/platform/storage/archive",
			[]string{"ingot-init is small"}},
		{"internal/platform/instance/agentproto", "golang.org/x/sys/unix", []string{"ingot-init is small"}},
		{"cmd/ingot-init", "os/exec", nil},
		{"cmd/ingot-init", "golang.org/x/sys/unix", []string{"ingot-init is small"}},
		{"cmd/ingot-init", "ingot/internal/base/fault", []string{"ingot-init is small"}},
		{"internal/platform/instance/initproto", "ingot/internal/base/fault", []string{"ingot-init is small"}},
		{"internal/base/background", "ingot/internal/base/fault", []string{"background imports nothing else"}},
		{"cmd/ingot-sftp", "ingot/internal/platform/edge/sshd/sftp", nil},
		{"cmd/ingot-sftp", "ingot/internal/platform/edge/sshd", []string{"ingot-sftp is small"}},
		{"internal/platform/edge/sshd/sftp", "golang.org/x/sys/unix", []string{"ingot-sftp is small"}},
		{"internal/platform/sshdx", "ingot/internal/platform/engine", nil},
		{"internal/platform/engine/kubernetes", "k8s.io/client-go/dynamic", nil},
		{"internal/platform/engine/kubernetes", "k8s.io/client-go/dynamic/dynamicinformer",
			[]string{"no typed Kubernetes clients"}},
		{"internal/notify/mail", "ingot/internal/cli", []string{"wings do not import each other"}},
		{"internal/broker", "ingot/internal/notify/httpv2", []string{"wings do not import each other"}},
		{"internal/cli", "ingot/internal/platform/manifest", []string{"wings do not import each other"}},
		{"internal/cli/push", "ingot/internal/cli/apps", nil},
		{"internal/cli/apps", "ingot/internal/cli/routes",
			[]string{"commands of different subjects do not import each other"}},
		{"internal/notify/mail", "ingot/internal/notify/httpv1", []string{"adapters do not import HTTP handlers"}},
		{"internal/notify/mail", "ingot/internal/notify/notifydb", []string{"adapters do not import each other"}},
		{"internal/base/db", "ingot/internal/notify/mail", []string{"the base imports no wing"}},
		{"internal/platform/platformdb", "ingot/internal/base/db", nil},
		{"internal/platform/platformdb", "ingot/internal/platform", nil},
		{"internal/notify/notifydb", "ingot/internal/notify", nil},
		{"internal/notify/notifydb", "ingot/internal/platform/platformdb", []string{"wings do not import each other",
			"adapters do not import each other"}},
		{"internal/auth/authdb", "ingot/internal/notify", []string{"wings do not import each other"}},
		{"internal/base/db/dbtest", "ingot/internal/auth", []string{"the base imports no wing"}},
		{"internal/platform/engine/process", "ingot/internal/platform/engine", nil},
		{"internal/platform/engine/process", "ingot/internal/platform/engine/container",
			[]string{"engines do not import each other"}},
		{"internal/platform/engine/container", "ingot/internal/broker", []string{"wings do not import each other"}},
		{"internal/platform/engine/container", "ingot/internal/platform/platformdb",
			[]string{"adapters do not import each other"}},
		{"internal/platform/run/controller", "ingot/internal/platform/engine", nil},
		{"internal/platform/run/controller", "ingot/internal/platform/engine/process",
			[]string{"services do not import HTTP handlers, adapters or the system"}},
		{"internal/platform/run/controller", "ingot/internal/platform/api",
			[]string{"services do not import HTTP handlers, adapters or the system"}},
		{"internal/platform/run/staging", "ingot/internal/platform/platformdb",
			[]string{"services do not import HTTP handlers, adapters or the system"}},
		{"internal/auth", "ingot/internal/system", []string{"services do not import HTTP handlers, adapters or the system",
			"only programs import the system"}},
		{"internal/notify/httpv1", "ingot/internal/notify", nil},
		{"internal/notify", "ingot/internal/notify/httpv1",
			[]string{"services do not import HTTP handlers, adapters or the system"}},
		{"internal/platform/api", "ingot/internal/platform/run/controller", nil},
		{"internal/platform/api", "ingot/internal/auth", []string{"wings do not import each other"}},
		{"internal/notify/delivery", "ingot/internal/platform/logs", []string{"wings do not import each other"}},
		{"cmd/ingot", "ingot/internal/system", nil},
		{"e2e/push", "ingot/internal/system", nil},
		{"bench", "ingot/internal/system", nil},
		{"internal/system", "ingot/internal/system/config", nil},
		{"internal/cli", "ingot/internal/system", []string{"only programs import the system"}},
	} {
		var got []string
		for _, r := range rules {
			if len(r.check([]pkg{{ImportPath: module + "/" + test.from, Imports: []string{test.to}}})) > 0 {
				got = append(got, r.name)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s imports %s: violates %q, want %q", test.from, test.to, got, test.want)
		}
	}
}

// A test may import what its package may not, except for the system.
func TestImportsCheckerTests(t *testing.T) {
	t.Parallel()
	p := pkg{
		ImportPath:   "ingot/internal/platform/run/controller",
		TestImports:  []string{"ingot/internal/platform/platformdb"},
		XTestImports: []string{"ingot/internal/system"},
	}
	var got []string
	for _, r := range rules {
		got = append(got, r.check([]pkg{p})...)
	}
	expect(t, got, "internal/platform/run/controller imports internal/system")
}

// Every rule must be able to fail, and must have a reason.
func TestRulesCanFail(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		if r.reason == "" || r.name == "" {
			t.Errorf("rule %q has no name or no reason", r.name)
		}
		if len(r.never) == 0 && len(r.only) == 0 && len(r.apart) < 2 {
			t.Errorf("rule %q forbids nothing", r.name)
		}
		if len(r.from) == 0 && len(r.apart) == 0 {
			t.Errorf("rule %q applies to no package", r.name)
		}
	}
}
