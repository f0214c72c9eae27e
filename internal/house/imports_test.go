package house

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A set is a list of packages by their path in the module. "internal/db" is that
// package alone, "internal/db/..." also everything below it, and "internal/db/*db"
// every package in that folder whose name ends so, with everything below it.
type set []string

func (s set) has(path string) bool {
	return slices.ContainsFunc(s, func(pattern string) bool { return match(pattern, path) })
}

func match(pattern, path string) bool {
	if folder, ending, ok := strings.Cut(pattern, "*"); ok {
		rest, in := strings.CutPrefix(path, folder)
		name, _, _ := strings.Cut(rest, "/")
		return in && strings.HasSuffix(name, ending)
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == tree || strings.HasPrefix(path, tree+"/")
	}
	return path == pattern
}

// The parts of the house. A package that does not exist yet is simply not there.
var (
	nouns    = set{"internal/cf/...", "internal/fault/..."}
	stores   = set{"internal/db/*db"} // one a service: authdb, platformdb, notifydb
	database = set{"internal/db/..."}
	engines  = set{"internal/engine/process/...", "internal/engine/container/...", "internal/engine/kubernetes/..."}
	adapters = union(database, engines, set{"internal/broker/...", "internal/mail/..."})
	faces    = set{"internal/cli/...", "internal/api/...", "internal/console/...", "internal/notify/httpv1/...", "internal/notify/httpv2/...", "internal/notify/httpext/..."}
	services = set{"internal/platform/...", "internal/controller/...", "internal/services/...", "internal/staging/...", "internal/notify/...", "internal/auth/...", "internal/herald/..."}
	system   = set{"internal/system/..."}
	// assemblies put a service together with its neighbours, for tests.
	assemblies = set{"internal/notify/facetest/..."}

	authService   = set{"internal/auth/...", "internal/db/authdb/..."}
	notifyService = set{"internal/notify/...", "internal/db/notifydb/..."}
	platform      = set{
		"internal/api/...", "internal/platform/...", "internal/controller/...", "internal/staging/...", "internal/services/...",
		"internal/router/...", "internal/logs/...", "internal/sshd/...", "internal/manifest/...", "internal/herald/...", "internal/db/platformdb/...",
	}
)

func union(sets ...set) set { return slices.Concat(sets...) }

// A rule is a boundary. It is about the imports of the packages in from that are
// not in except, and forbids either those in never, or all that are not in only.
type rule struct {
	name   string
	reason string

	from   set
	except set

	never set  // may not import these
	only  set  // of the packages of this module, may import these (and those in from) alone
	std   bool // with only: no other module either, the standard library alone

	// apart: the members of from, each a part by itself, may not import each other.
	apart []set
	// tests: the imports of tests count as well. Usually they do not, because a
	// test may put a part together with its neighbours.
	tests bool
}

var rules = []rule{
	{
		name:   "nouns stand alone",
		reason: "the nouns and their rules do no I/O and know nothing of who uses them, so that every part can share them",
		from:   nouns, only: nouns,
	},
	{
		name:   "token stands alone",
		reason: "every API checks tokens with it, also one that is moved out of this process, so it must drag nothing along",
		from:   set{"internal/token/..."}, only: set{"internal/fault/..."},
	},
	{
		name:   "ingot-init is small",
		reason: "it is PID 1 in every app instance, beside code we do not know: it has to be tiny, static and easy to read through",
		from:   set{"cmd/ingot-init/...", "internal/launch/..."}, only: set{"internal/launch/...", "internal/run"}, std: true,
	},
	{
		name:   "run stands alone",
		reason: "every part starts its goroutines with it, down to those that are linked into ingot-init",
		from:   set{"internal/run"}, only: set{"internal/run"}, std: true,
	},
	{
		name:   "ingot-sftp is small",
		reason: "it runs in every app instance that files are copied to or from, beside code we do not know",
		from:   set{"cmd/ingot-sftp/...", "internal/sshd/sftp/..."}, only: set{"internal/sshd/sftp/..."}, std: true,
	},
	{
		name:   "adapters do not know faces",
		reason: "an adapter serves whatever asks; a face that it knows could not be taken away or exchanged",
		from:   adapters, never: faces,
	},
	{
		name:   "adapters do not know each other",
		reason: "each can be exchanged or left out alone; only the system knows which of them are there",
		apart:  []set{database, {"internal/engine/..."}, {"internal/broker/..."}, {"internal/mail/..."}},
	},
	{
		name:   "engines do not know each other",
		reason: "what they share belongs to the seam or to ingot-init, so that the next engine gets it too",
		apart:  []set{engines[0:1], engines[1:2], engines[2:3]},
	},
	{
		name:   "stores do not know each other",
		reason: "services meet over HTTP or through small interfaces, never through each other's tables",
		apart:  []set{{"internal/db/authdb/..."}, {"internal/db/platformdb/..."}, {"internal/db/notifydb/..."}},
	},
	{
		name:   "the database knows no service",
		reason: "opening, migrating and transactions are the same for all; what is one service's own is in its store",
		from:   database, except: stores, never: union(services, platform, nouns[0:1]),
	},
	{
		name:   "services do not know faces, adapters or the system",
		reason: "a service owns the interfaces of what it needs and is handed the rest, so that it can be tested and moved without it",
		from:   services, except: union(faces, assemblies), never: union(faces, adapters, system),
	},
	{
		name:   "three services could live apart",
		reason: "authorization server, notification service and platform meet over HTTP with tokens, or through interfaces that the caller owns",
		apart:  []set{authService, notifyService, platform},
	},
	{
		name:   "only programs know the system",
		reason: "it depends on the whole house; whoever imports it does so too",
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

// forbids says why one package may not import another, or nothing if it may.
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
	case ours && r.never.has(to):
		return r.name
	case ours && r.only != nil && !r.only.has(to) && !r.from.has(to):
		return r.name + ", of this module it may import only " + strings.Join(r.only, ", ")
	case !ours && r.std && !standard(importPath):
		return r.name + ", it may import the standard library only"
	}
	return ""
}

// in tells whether the rule is about a package.
func (r rule) in(path string) bool {
	all := len(r.from) == 1 && r.from[0] == "..."
	return (all || r.from.has(path)) && !r.except.has(path)
}

// standard tells whether a path is the standard library's: its first element,
// unlike that of a module, has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func TestImportsChecker(t *testing.T) {
	t.Parallel()
	// Each import, and the rules that have to object to it.
	for _, test := range []struct {
		from, to string
		want     []string
	}{
		{"internal/cf", "ingot/internal/fault", nil},
		{"internal/cf", "time", nil},
		{"internal/cf", "ingot/internal/token", []string{"nouns stand alone"}},
		{"internal/fault", "ingot/internal/oplog", []string{"nouns stand alone"}},
		{"internal/token", "ingot/internal/fault", nil},
		{"internal/token", "github.com/go-jose/go-jose/v4", nil},
		{"internal/token", "ingot/internal/cf", []string{"token stands alone"}},
		{"cmd/ingot-init", "ingot/internal/launch", nil},
		{"cmd/ingot-init", "os/exec", nil},
		{"cmd/ingot-init", "golang.org/x/sys/unix", []string{"ingot-init is small"}},
		{"cmd/ingot-init", "ingot/internal/fault", []string{"ingot-init is small"}},
		{"internal/launch", "ingot/internal/fault", []string{"ingot-init is small"}},
		{"cmd/ingot-sftp", "ingot/internal/sshd/sftp", nil},
		{"cmd/ingot-sftp", "ingot/internal/sshd", []string{"ingot-sftp is small"}},
		{"internal/sshd/sftp", "golang.org/x/sys/unix", []string{"ingot-sftp is small"}},
		{"internal/launchpad", "ingot/internal/fault", nil},
		{"internal/mail", "ingot/internal/cli", []string{"adapters do not know faces"}},
		{"internal/broker", "ingot/internal/notify/httpv2", []string{"adapters do not know faces"}},
		{"internal/mail", "ingot/internal/db", []string{"adapters do not know each other"}},
		{"internal/db", "ingot/internal/mail", []string{"adapters do not know each other"}},
		{"internal/db/platformdb", "ingot/internal/db", nil},
		{"internal/db/platformdb", "ingot/internal/cf", nil},
		{"internal/db/notifydb", "ingot/internal/notify", nil},
		{"internal/db/notifydb", "ingot/internal/db/platformdb", []string{"stores do not know each other", "three services could live apart"}},
		{"internal/db/authdb", "ingot/internal/notify", []string{"three services could live apart"}},
		{"internal/db", "ingot/internal/auth", []string{"the database knows no service"}},
		{"internal/db/dbtest", "ingot/internal/cf", []string{"the database knows no service"}},
		{"internal/engine/process", "ingot/internal/engine", nil},
		{"internal/engine/process", "ingot/internal/engine/container", []string{"engines do not know each other"}},
		{"internal/engine/container", "ingot/internal/broker", []string{"adapters do not know each other"}},
		{"internal/controller", "ingot/internal/engine", nil},
		{"internal/controller", "ingot/internal/engine/process", []string{"services do not know faces, adapters or the system"}},
		{"internal/controller", "ingot/internal/api", []string{"services do not know faces, adapters or the system"}},
		{"internal/staging", "ingot/internal/db", []string{"services do not know faces, adapters or the system"}},
		{"internal/auth/pages", "ingot/internal/system", []string{"services do not know faces, adapters or the system", "only programs know the system"}},
		{"internal/notify/httpv1", "ingot/internal/notify", nil},
		{"internal/notify", "ingot/internal/notify/httpv1", []string{"services do not know faces, adapters or the system"}},
		{"internal/api", "ingot/internal/controller", nil},
		{"internal/api", "ingot/internal/auth", []string{"three services could live apart"}},
		{"internal/auth", "ingot/internal/notify/template", []string{"three services could live apart"}},
		{"internal/notify/delivery", "ingot/internal/logs", []string{"three services could live apart"}},
		{"cmd/ingot", "ingot/internal/system", nil},
		{"e2e/push", "ingot/internal/system", nil},
		{"bench", "ingot/internal/system", nil},
		{"internal/system", "ingot/internal/system/config", nil},
		{"internal/cli", "ingot/internal/system", []string{"only programs know the system"}},
	} {
		var got []string
		for _, r := range rules {
			if len(r.check([]pkg{{ImportPath: module + "/" + test.from, Imports: []string{test.to}}})) > 0 {
				got = append(got, r.name)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s imports %s: refused by %q, want %q", test.from, test.to, got, test.want)
		}
	}
}

// A test may import what its package may not, except for the system.
func TestImportsCheckerTests(t *testing.T) {
	t.Parallel()
	p := pkg{
		ImportPath:   "ingot/internal/controller",
		TestImports:  []string{"ingot/internal/db"},
		XTestImports: []string{"ingot/internal/system"},
	}
	var got []string
	for _, r := range rules {
		got = append(got, r.check([]pkg{p})...)
	}
	expect(t, got, "internal/controller imports internal/system")
}

// Every rule must be able to refuse something, and must say why it is there.
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
			t.Errorf("rule %q is about nobody", r.name)
		}
	}
}
