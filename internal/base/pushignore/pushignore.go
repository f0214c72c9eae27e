package pushignore

import (
	"strings"

	ignore "github.com/sabhiram/go-gitignore"
)

// Files are the names of the files with patterns; the first that exists is used.
var Files = []string{".ingotignore", ".cfignore"}

// never are patterns that always apply: they come last, so that no !pattern includes their files.
var never = []string{".ingotignore", ".cfignore", ".DS_Store", ".git", ".gitignore", ".hg", ".svn", "_darcs",
	"manifest.yml", "manifest.yaml"}

// Rules are the patterns of a file.
type Rules struct{ patterns *ignore.GitIgnore }

// Parse returns the rules of a file with patterns, which may be empty.
func Parse(text string) Rules {
	return Rules{ignore.CompileIgnoreLines(append(strings.Split(text, "\n"), never...)...)}
}

// Exclude reports whether a file or folder, by its path with slashes, is not part of the app.
// A file of an excluded folder may be.
func (r Rules) Exclude(path string, folder bool) bool {
	return r.patterns.MatchesPath(path) || folder && r.patterns.MatchesPath(path+"/")
}
