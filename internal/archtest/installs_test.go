package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

const installReason = "the command depends on the distribution; distro.Install returns it for the machine at hand"

// TestInstallCommands checks that messages do not name the package manager of one distribution.
func TestInstallCommands(t *testing.T) {
	t.Parallel()
	checkProgram(t, installReason, set{"internal/...", "cmd/..."}, checkInstallCommands)
}

// managed matches commands that install packages.
var managed = regexp.MustCompile(`\b(apt-get|apt install|dnf install|yum install|apk add|pacman -S|zypper install)\b`)

// checkInstallCommands finds such commands in texts.
func checkInstallCommands(f *ast.File) map[token.Pos]string {
	found := map[token.Pos]string{}
	if f.Name.Name == "distro" { // internal/base/distro has the table
		return found
	}
	ast.Inspect(f, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return true // the compiler says why
		}
		if command := managed.FindString(text); command != "" {
			found[literal.Pos()] = fmt.Sprintf("%q in a text", command)
		}
		return true
	})
	return found
}

// TestInstallRule checks the check.
func TestInstallRule(t *testing.T) {
	t.Parallel()
	checkRule(t, checkInstallCommands, []ruleCase{
		{"const x = `run apt-get install git`", "apt-get"},
		{"var x = f(\"dnf install %s\", 1)", "dnf install"},
		{"// run apt-get\nvar x = `adapt installed, apt`", ""},
	})
}
