package apps

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ingot/internal/base/manifestkeys"
	"ingot/internal/base/pattern"
)

// mark is a problem with a manifest. Its line and column begin at 1; 0 means that they are not known.
type mark struct {
	Line, Column int
	Text         string
	Warning      bool // it does not keep the manifest from being applied
}

var (
	// yamlLine is how the parser says where text is not YAML.
	yamlLine = pattern.OnUse(`(?s)^.*not valid YAML: (?:line (\d+): )?(.*)$`)
	// ofPart is how a problem says which process or sidecar it is about.
	ofPart = pattern.OnUse(`(?s)^(Process|Sidecar) "([^"]*)": (.*)$`)
	// ofApp begins each problem of an app; an answer may have several.
	ofApp = pattern.OnUse(`For application '[^']*': |For application at index \d+: `)
	// filledIn is what the clients replace by values of their own.
	filledIn = pattern.OnUse(`\(\([-/\w.]+\)\)`)
)

// warningsOf returns the problems with the keys of a manifest, as the client finds them, with suggestions.
func warningsOf(text string) []mark {
	lines := strings.Split(text, "\n")
	var all []mark
	for _, w := range manifestkeys.Check([]byte(text)) {
		one := mark{Line: w.Line, Text: w.Text, Warning: true}
		if w.Line >= 1 && w.Line <= len(lines) {
			one.Column = columnOf(lines[w.Line-1], w.Key)
		}
		all = append(all, one)
	}
	for i, line := range lines {
		if at := filledIn().FindStringIndex(line); at != nil {
			all = append(all, mark{Line: i + 1, Column: utf8.RuneCountInString(line[:at[0]]) + 1, Warning: true,
				Text: line[at[0]:at[1]] + " is not replaced here: only the clients fill in variables of manifests"})
		}
	}
	slices.SortStableFunc(all, func(a, b mark) int { return a.Line - b.Line })
	return all
}

// columnOf returns where a key begins in a line, from 1, or where the line's text begins.
func columnOf(line, key string) int {
	at := strings.Index(line, key)
	if at < 0 {
		at = len(line) - len(strings.TrimLeft(line, " -"))
	}
	return utf8.RuneCountInString(line[:at]) + 1
}

// marksOf returns the problems that an API found, with their positions where the text has them.
func marksOf(text, problem string) []mark {
	lines := strings.Split(text, "\n")
	if m := yamlLine().FindStringSubmatch(problem); m != nil {
		one := mark{Text: "This is not valid YAML: " + m[2]}
		if n, _ := strconv.Atoi(m[1]); n >= 1 && n <= len(lines) {
			one.Line, one.Column = n, columnOf(lines[n-1], "")
			one.Column = cmp.Or(one.Column, 1)
		}
		return []mark{one}
	}
	var all []mark
	begins := ofApp().FindAllStringIndex(problem, -1)
	if len(begins) == 0 {
		return []mark{{Text: problem}}
	}
	for i, at := range begins {
		end := len(problem)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		one := mark{Text: strings.TrimSpace(problem[at[1]:end])}
		one.Line, one.Column = locate(lines, one.Text)
		all = append(all, one)
	}
	return all
}

// locate returns the position of the key that a problem is about: in the entry of a process or sidecar, or of the
// app. It is 0 if the text has none, or several.
func locate(lines []string, problem string) (line, column int) {
	level, from, to := manifestkeys.App, 0, len(lines)
	if m := ofPart().FindStringSubmatch(problem); m != nil {
		id := "type"
		if level = manifestkeys.Process; m[1] == "Sidecar" {
			level, id = manifestkeys.Sidecar, "name"
		}
		problem = m[3]
		if begin, end, named := entry(lines, id, m[2]); end > begin {
			if n, col := only(lines, begin, end, keysIn(level, problem)); n > 0 {
				return n, col
			}
			return named + 1, columnOf(lines[named], id)
		}
	}
	return only(lines, from, to, keysIn(level, problem))
}

// keysIn returns the names that a problem begins with: a key, "Health check type" for health-check-type, or a variable.
func keysIn(level manifestkeys.Level, problem string) []string {
	if name, ok := strings.CutPrefix(problem, "Env cannot set "); ok {
		return []string{name}
	}
	if _, name, ok := strings.Cut(problem, "Env cannot start with "); ok {
		return []string{name[strings.LastIndex(name, " ")+1:]}
	}
	words, best := strings.ToLower(problem)+" ", ""
	for _, k := range manifestkeys.Of(level) {
		said := strings.NewReplacer("-", " ", "_", " ").Replace(k.Name)
		if strings.HasPrefix(words, said+" ") && len(k.Name) > len(best) {
			best = k.Name
		}
	}
	if best == "" && level == manifestkeys.App {
		return keysIn(manifestkeys.Process, problem+" ")
	}
	return []string{best, strings.ReplaceAll(best, "-", "_")}
}

// only returns the position of the only line in a range that has one of some keys.
func only(lines []string, from, to int, keys []string) (line, column int) {
	for i := from; i < to; i++ {
		key := keyOf(lines[i])
		if key == "" || !slices.Contains(keys, key) {
			continue
		}
		if line > 0 {
			return 0, 0
		}
		line, column = i+1, columnOf(lines[i], key)
	}
	return line, column
}

// keyOf returns the key that a line of YAML begins with.
func keyOf(line string) string {
	key, _, ok := strings.Cut(strings.TrimLeft(line, " -"), ":")
	if !ok {
		return ""
	}
	return strings.Trim(key, `"'`)
}

// entry returns the lines of the list entry with a name, and the line that has it.
func entry(lines []string, id, name string) (from, to, named int) {
	for i, line := range lines {
		_, value, _ := strings.Cut(line, ":")
		if keyOf(line) != id || strings.Trim(strings.TrimSpace(value), `"'`) != name {
			continue
		}
		column := len(line) - len(strings.TrimLeft(line, " -"))
		for from = i; from > 0 && !strings.HasPrefix(strings.TrimSpace(lines[from]), "-"); from-- {
			continue
		}
		for to = i + 1; to < len(lines) && inEntry(lines[to], column); to++ {
			continue
		}
		return from, to, i
	}
	return 0, 0, 0
}

// inEntry reports whether a line continues an entry whose keys begin at a column.
func inEntry(line string, column int) bool {
	text := strings.TrimLeft(line, " ")
	return text == "" || len(line)-len(text) >= column
}
