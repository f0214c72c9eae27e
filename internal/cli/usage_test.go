package cli_test

import (
	"strings"
	"testing"
)

// A command that is used in the wrong way names its own help, although commands share code.
func TestUsageNamesOwnHelp(t *testing.T) {
	t.Parallel()
	for command, args := range map[string]string{
		"set-org-role": "ann acme King", "unset-org-role": "ann acme King", "set-space-role": "ann acme shop King",
		"unset-space-role": "ann acme shop King",
		"labels":           "planet x", "set-label": "planet x a=b", "unset-label": "planet x a",
		"create-org-quota": "q -m 5", "update-org-quota": "q -m 5", "create-space-quota": "q -m 5",
		"update-space-quota": "q -m 5",
		"push":               "--var x", "apply-manifest": "--var x",
		"scale": "shop -m 5X", "curl": "/ -H x",
	} {
		w := loggedIn(t)
		_, errs, code := w.run(append([]string{command}, strings.Fields(args)...)...)
		if want := " " + command + " --help)"; code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s %s: exit code %d, want 2 and %q\n%s", command, args, code, want, errs)
		}
	}
}

// A number that is too large for the API is refused, not cut to another one.
func TestTooLargeNumbers(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"create-org-quota q -m 9007199254740993G", "create-org-quota q -m 9223372036854775807T",
		"create-org-quota q -l 9223372036854775807K",
		"create-org-quota q -i 99999999999999999999M", "create-org-quota q -r 9223372036854775808",
		"create-space-quota q -a 99999999999999999999",
		"scale shop -m 9223372036854775807T", "scale shop -k 1e300G", "push -m 99999999999999999999G",
	} {
		w := loggedIn(t)
		_, errs, code := w.run(strings.Fields(args)...)
		if code != 2 {
			t.Errorf("%s: exit code %d, want 2\n%s", args, code, errs)
		}
	}
}
