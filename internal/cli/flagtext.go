package cli

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/pattern"
	"ingot/internal/base/suggest"
	"ingot/internal/cli/core"
)

// The texts of the flags package that users should not read: they name Go's types
// and functions.
var (
	badValue  = pattern.OnUse("^invalid argument for flag [`']([^`']+)[`'] \\(expected ([^)]+)\\)(?:: (.*))?$")
	noValue   = pattern.OnUse("^bool flag [`']([^`']+)[`'] cannot have an argument")
	needValue = pattern.OnUse("^expected argument for flag [`']([^`']+)[`'](?:, but got option [`']([^`']+)[`'])?$")
	quoted    = pattern.OnUse(`"(?:[^"\\]|\\.)*"`)
)

// FlagError returns what is wrong with a command line, in the words of its user.
func FlagError(err error) string {
	text := strings.ReplaceAll(firstLine(err.Error()), "`", "'")
	var number *strconv.NumError
	if errors.As(err, &number) { // an argument; those of flags are text only
		return strconv.Quote(number.Num) + " " + notA("int", number.Err.Error())
	}
	if m := noValue().FindStringSubmatch(text); m != nil {
		return flagWord(m[1]) + " takes no value"
	}
	if m := needValue().FindStringSubmatch(text); m != nil {
		need := flagWord(m[1]) + " needs a value"
		if next := m[2]; next != "" {
			need += ", but is followed by " + next
		}
		return need
	}
	m := badValue().FindStringSubmatch(text)
	if m == nil {
		return text
	}
	kind, why := strings.TrimLeft(m[2], "*[]"), m[3]
	switch {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"), strings.HasPrefix(kind, "float"), kind == "bool",
		kind == "time.Duration":
		return flagWord(m[1]) + ": " + quoted().FindString(why) + " " + notA(kind, why)
	case why == "":
		return flagWord(m[1]) + " has a value that is not possible"
	}
	return flagWord(m[1]) + ": " + why
}

// flagWord returns the name by which a flag is typed: the parser names both.
func flagWord(names string) string {
	_, long, both := strings.Cut(names, ", ")
	if both {
		return long
	}
	return names
}

// notA says why a value is not one of a Go type.
func notA(kind, why string) string {
	switch {
	case strings.Contains(why, "out of range"):
		return "is out of range"
	case kind == "bool":
		return "is neither true nor false"
	case kind == "time.Duration":
		return "is not a duration, such as 30s, 5m or 1h30m"
	case strings.HasPrefix(kind, "float"):
		return "is not a number"
	}
	return "is not a whole number"
}

// otherFlags maps long flags that the cf CLI and other tools have to the names of
// the fields of flags that mean the same.
var otherFlags = map[string][]string{
	"disk-quota": {"Disk"}, "mem": {"Memory"}, "ram": {"Memory"}, "memory-limit": {"Memory"}, "replicas": {"Instances"},
	"count":        {"Instances", "Max"},
	"docker-image": {"DockerImage"}, "image": {"DockerImage"}, "health-check-type": {"HealthCheck"},
	"app-start-timeout": {"Timeout"}, "start-timeout": {"Timeout"},
	"start-command": {"Command"}, "cmd": {"Command"}, "hostname": {"Host"}, "dir": {"Path"}, "file": {"Manifest", "File"},
	"log-rate-limit": {"LogRate"},
	"yes":            {"Force"}, "organization": {"Org"}, "config": {"Parameters"}, "user": {"User", "Username"},
	"follow": {"Follow"}, "tail": {"Recent"},
}

// closestFlag returns the flag, with its dashes, that an unknown long flag stands
// for: one with a similar name, or one without a long name that is meant by the
// word. It returns "" if there is none.
func closestFlag(name string, all []*flags.Option) string {
	var names []string
	words := map[string]string{}
	for _, o := range all {
		typed := "--" + o.LongName
		if o.LongName == "" {
			typed = "-" + string(o.ShortName)
		} else {
			names = append(names, o.LongName)
		}
		words[fieldWord(o.Field().Name)] = typed
	}
	if near := suggest.Closest(name, names); near != "" {
		return "--" + near
	}
	asked := fieldWord(name)
	for _, field := range append([]string{asked, asked + "s", strings.TrimSuffix(asked, "s")}, otherFlags[name]...) {
		if typed, ok := words[fieldWord(field)]; ok {
			return typed
		}
	}
	keys := core.SortedKeys(words)
	if near := suggest.Closest(asked,
		slices.DeleteFunc(keys, func(k string) bool { return strings.HasPrefix(words[k], "--") })); near != "" {
		return words[near]
	}
	return ""
}

func fieldWord(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "")) }
