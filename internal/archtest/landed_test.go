package archtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// landedFile lists the migrations that databases may have, in the order in which they got them: FOLDER NAME SHA-256.
// It is the memory that a clone without history has. Lines are only ever added behind those of the same folder.
const landedFile = "testdata/migrations.txt"

var migrationName = regexp.MustCompile(`^[0-9]{5}_[a-z0-9_]+\.sql$`)

// migration is a file of migrations/. Numbers have five digits, so names sort as they do.
type migration struct{ folder, name, sum string }

func (m migration) String() string { return m.folder + " " + m.name + " " + m.sum }

// number has five digits, so that numbers compare as texts; that of no migration is the lowest.
func (m migration) number() string { return m.name[:min(5, len(m.name))] }

// TestMigrationsLanded: a server refuses a database that has a newer migration than one that it lacks. So a migration
// whose number is below one that was landed would stop every database of a build in between; and one that is changed
// or removed never reaches the databases that have it.
func TestMigrationsLanded(t *testing.T) {
	t.Parallel()
	have := migrations(t, root(t))
	landed := readLanded(t)
	problems, fresh := compareLanded(landed, have)
	for _, problem := range problems {
		t.Error(problem)
	}
	if len(problems) > 0 || len(fresh) == 0 {
		return
	}
	if !*update {
		t.Errorf("%s lacks %v: run go test ./internal/archtest -run TestMigrationsLanded -update", landedFile, fresh)
		return
	}
	all := slices.Concat(landed, fresh)
	slices.SortStableFunc(all, func(a, b migration) int { return strings.Compare(a.folder+a.name, b.folder+b.name) })
	var text strings.Builder
	for _, m := range all {
		fmt.Fprintln(&text, m)
	}
	if err := os.WriteFile(landedFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// migrations returns those of a checkout.
func migrations(t *testing.T, root string) (all []migration) {
	t.Helper()
	for folder := range tablePrefixes {
		dir := filepath.Join(root, filepath.FromSlash(folder), "migrations")
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if filepath.Ext(e.Name()) != ".sql" {
				continue
			}
			if !migrationName.MatchString(e.Name()) {
				t.Errorf("%s/%s is not named NNNNN_words.sql, with five digits", dir, e.Name())
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(text)
			all = append(all, migration{folder, e.Name(), hex.EncodeToString(sum[:])})
		}
	}
	slices.SortFunc(all, func(a, b migration) int { return strings.Compare(a.folder+a.name, b.folder+b.name) })
	return all
}

func readLanded(t *testing.T) (landed []migration) {
	t.Helper()
	text, err := os.ReadFile(landedFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 || !migrationName.MatchString(f[1]) {
			t.Fatalf("%s: %q is not FOLDER NAME SHA-256", landedFile, line)
		}
		landed = append(landed, migration{f[0], f[1], f[2]})
	}
	return landed
}

// compareLanded returns what is wrong with migrations, and those that can be landed.
func compareLanded(landed, have []migration) (problems []string, fresh []migration) {
	highest, known := map[string]migration{}, map[string]migration{}
	for _, m := range landed {
		if before := highest[m.folder]; before.name != "" && m.number() <= before.number() {
			problems = append(problems, fmt.Sprintf("%s: %s/%s stands behind %s: its number has to be higher", landedFile,
				m.folder, m.name, before.name))
		}
		highest[m.folder], known[m.folder+"/"+m.name] = m, m
	}
	numbers := map[string]string{}
	for _, m := range have {
		at := m.folder + "/" + m.name
		if other := numbers[m.folder+m.number()]; other != "" {
			problems = append(problems, fmt.Sprintf("%s has the number of %s: give it the next one", at, other))
		}
		numbers[m.folder+m.number()] = m.name
		before, ok := known[at]
		delete(known, at)
		switch {
		case ok && before.sum != m.sum:
			problems = append(problems, at+" was changed after it landed: databases that have it never get the change, so "+
				"add a migration with a higher number")
		case ok:
		case m.number() <= highest[m.folder].number():
			problems = append(problems, fmt.Sprintf("%s comes after %s landed: databases of builds in between refuse to start, "+
				"so give it a number above %s", at, highest[m.folder].name, highest[m.folder].number()))
		default:
			fresh = append(fresh, m)
		}
	}
	for at := range known {
		problems = append(problems, at+" has landed and does not exist: databases that have it are refused as newer")
	}
	slices.Sort(problems)
	return problems, fresh
}

// TestCompareLanded shows each mistake to compareLanded.
func TestCompareLanded(t *testing.T) {
	t.Parallel()
	of := func(names ...string) (all []migration) {
		for _, name := range names {
			name, sum, _ := strings.Cut(name, "=")
			all = append(all, migration{"a", name + ".sql", sum})
		}
		return all
	}
	landed := of("00001_a", "00003_c")
	for name, test := range map[string]struct {
		landed, have []migration
		problem      string
		fresh        int
	}{
		"nothing new": {landed, landed, "", 0},
		"new":         {landed, of("00001_a", "00003_c", "00004_d", "00007_e"), "", 2},
		"first":       {nil, of("00001_a"), "", 1},
		"gap":         {landed, of("00001_a", "00002_b", "00003_c"), "give it a number above 00003", 0},
		"same number": {landed, of("00001_a", "00003_b", "00003_c"), "give it a number above 00003", 0},
		"two new":     {landed, of("00001_a", "00003_c", "00004_d", "00004_e"), "has the number of", 2},
		"changed":     {landed, of("00001_a", "00003_c=x"), "was changed after it landed", 0},
		"removed":     {landed, of("00001_a"), "does not exist", 0},
		"renamed":     {landed, of("00001_a", "00003_d"), "does not exist", 0},
		"listed low":  {of("00003_c", "00001_a"), landed, "its number has to be higher", 0},
	} {
		problems, fresh := compareLanded(test.landed, test.have)
		if all := strings.Join(problems, "\n"); !strings.Contains(all, test.problem) || (test.problem == "") != (all == "") ||
			len(fresh) != test.fresh {
			t.Errorf("%s: %q and %d to land, want %q and %d", name, all, len(fresh), test.problem, test.fresh)
		}
	}
}
