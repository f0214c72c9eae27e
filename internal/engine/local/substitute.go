//go:build linux

package local

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/launch"
)

const homeWord = "{{home}}"

var portWord = regexp.MustCompile(`\{\{port:([0-9]{1,5})\}\}`)

// Substitute returns the spec with {{home}} and {{port:N}} replaced in the
// arguments, environment and directory of every member, and with the ports of
// its checks mapped likewise. s itself is not changed.
func Substitute(s launch.Spec, home string, port func(int) int) launch.Spec {
	s.Members = slices.Clone(s.Members)
	for i, m := range s.Members {
		m.Args = SubstituteAll(m.Args, home, port)
		m.Env = SubstituteAll(m.Env, home, port)
		m.Dir = substitute(m.Dir, home, port)
		s.Members[i] = m
	}
	s.Health = mapPorts(s.Health, port)
	s.Readiness = mapPorts(s.Readiness, port)
	return s
}

// SubstituteAll replaces {{home}} and {{port:N}} in each text.
func SubstituteAll(texts []string, home string, port func(int) int) []string {
	out := slices.Clone(texts)
	for i := range out {
		out[i] = substitute(out[i], home, port)
	}
	return out
}

func substitute(text, home string, port func(int) int) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	text = portWord.ReplaceAllStringFunc(text, func(word string) string {
		n, err := strconv.Atoi(portWord.FindStringSubmatch(word)[1])
		if err != nil {
			return word
		}
		return strconv.Itoa(port(n))
	})
	return strings.ReplaceAll(text, homeWord, home)
}

func mapPorts(c launch.Check, port func(int) int) launch.Check {
	c.Ports = slices.Clone(c.Ports)
	for i, n := range c.Ports {
		c.Ports[i] = port(n)
	}
	return c
}

// MentionsPort tells whether some member's arguments or environment say
// {{port:N}}, so that it can be told to listen on another number.
func MentionsPort(s launch.Spec, port int) bool {
	word := "{{port:" + strconv.Itoa(port) + "}}"
	has := func(text string) bool { return strings.Contains(text, word) }
	return slices.ContainsFunc(s.Members, func(m launch.Member) bool {
		return slices.ContainsFunc(m.Args, has) || slices.ContainsFunc(m.Env, has)
	})
}
