package archtest

import (
	"fmt"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const writesReason = "an HTTP handler decodes, authorizes, calls an action and presents; a row that it writes itself " +
	"bypasses the rules and the audit event of the action, and the next API would have to repeat them"

// readsOnly are the interfaces through which rows are read and written, and their
// methods that a handler may call. The other parts of notify.Store are not
// repositories: each method is one operation of the service, with its rules.
var readsOnly = map[string][]string{
	"ingot/internal/platform.Repo": {"Get", "List", "First", "Count"},
	"ingot/internal/platform.Tx":   {"Context", "FeatureFlags", "EnvGroup"}, // and those that return a Repo
	"ingot/internal/notify.Queue":  {"Repeated", "Replay", "Cancel", "NextDue", "Waiting"},
}

// TestHandlersDoNotWrite checks that HTTP handlers leave writing to actions and
// services.
func TestHandlersDoNotWrite(t *testing.T) {
	t.Parallel()
	export := exportData(t, "./internal/platform/...", "./internal/notify/...")
	checked := 0
	var violations []string
	for _, p := range packages(t) {
		if !handlers.has(p.path()) {
			continue
		}
		checked++
		found, err := checkWrites(export, p.ImportPath, p.Dir, p.GoFiles)
		if err != nil {
			t.Error(err)
		}
		violations = append(violations, found...)
	}
	if checked < len(handlers) {
		t.Errorf("%d packages of HTTP handlers found, want at least %d: the rule names packages that do not exist", checked,
			len(handlers))
	}
	report(t, writesReason, violations)
}

// checkWrites finds each mention of a method of readsOnly that is not allowed.
func checkWrites(export map[string]string, importPath, dir string, names []string) ([]string, error) {
	files := token.NewFileSet()
	_, _, info, err := checkTypes(files, compiled(files, export), importPath, dir, names)
	if err != nil {
		return nil, err
	}
	var violations []string
	for id, object := range info.Uses {
		method, ok := object.(*types.Func)
		if !ok || method.Signature().Recv() == nil {
			continue
		}
		of, ok := method.Origin().Signature().Recv().Type().(*types.Named)
		if !ok || of.Obj().Pkg() == nil {
			continue
		}
		reads, known := readsOnly[of.Obj().Pkg().Path()+"."+of.Obj().Name()]
		if !known || slices.Contains(reads, method.Name()) || isRepo(method.Signature()) {
			continue
		}
		at := files.Position(id.Pos())
		violations = append(violations, fmt.Sprintf("%s/%s:%d: %s.%s writes", inModule(importPath),
			filepath.Base(at.Filename), at.Line, of.Obj().Name(), method.Name()))
	}
	slices.Sort(violations)
	return violations, nil
}

// isRepo reports whether a method only returns a repository.
func isRepo(s *types.Signature) bool {
	if s.Results().Len() != 1 {
		return false
	}
	result, ok := s.Results().At(0).Type().(*types.Named)
	return ok && result.Obj().Name() == "Repo"
}

func TestHandlersDoNotWriteChecker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const source = `package handler

import (
	"context"

	"ingot/internal/notify"
	"ingot/internal/platform"
)

func f(ctx context.Context, store platform.Store, sends notify.Store) error {
	_, _ = sends.Client(ctx, "")
	_ = sends.DeleteTemplate(ctx, "")
	_ = sends.Release(ctx, "")
	return store.Update(ctx, func(tx platform.Tx) error {
		app, _ := tx.Apps().Get("")
		repo := platform.Tx.Apps(tx)
		_ = repo.Insert(app)
		_ = tx.SetEnvGroup(platform.EnvGroup{})
		_, _ = tx.EnvGroup("")
		save := tx.Builds().Update
		return save(nil)
	})
}

func generic[T any](r platform.Repo[T]) { _ = r.Delete("") }
`
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := checkWrites(exportData(t, "./internal/platform", "./internal/notify"), "ingot/internal/handler", dir,
		[]string{"a.go"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "a.go:13 Queue.Release", "a.go:17 Repo.Insert", "a.go:18 Tx.SetEnvGroup", "a.go:20 Repo.Update",
		"a.go:25 Repo.Delete")
}
