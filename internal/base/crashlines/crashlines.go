package crashlines

import (
	"regexp"
	"strings"

	"ingot/internal/base/pattern"
)

// Most is how many lines of a crash are shown.
const Most = 40

// starts are the lines logged at every start; they explain nothing.
var starts = []string{"Invoking pre-start scripts.", "Invoking start command."}

func isStart(line string) bool {
	line = strings.TrimSpace(line)
	return line == starts[0] || line == starts[1]
}

var exit = pattern.OnUse(`^Exit status [0-9]+`)

// Explain returns the bounds of the lines to show of an instance that crashed, and the line
// that names the error, if it is recognised; that may be before the bounds. The lines are
// those since its last start, at most Most. Lines are in the order of their time.
func Explain(lines []string) (begin, end int, cause string) {
	begin, end = last(lines)
	if i := causeOf(lines[begin:end]); i >= 0 {
		cause = strings.TrimRight(lines[begin+i], "\r\n")
	}
	return max(begin, end-Most), end, cause
}

// last returns the bounds of the instance's last run that has ended or, if none has, that has
// written something.
func last(lines []string) (begin, end int) {
	end = len(lines)
	for end > 0 && isStart(lines[end-1]) {
		end--
	}
	for i := end - 1; i >= 0; i-- {
		if exit().MatchString(lines[i]) {
			end = i + 1
			break
		}
	}
	for begin = end; begin > 0 && !isStart(lines[begin-1]); begin-- {
	}
	return early(lines, begin), end
}

// early returns where a run begins whose last start line is before begin. Its first lines may be
// before that line: the start is announced on standard output, an error on standard error.
func early(lines []string, begin int) int {
	first := begin
	for i := begin - 1; i >= 0 && !exit().MatchString(lines[i]); i-- {
		if strings.TrimSpace(lines[i]) == starts[1] && i < begin-1 {
			return begin // the life before has no end in the log
		}
		if !isStart(lines[i]) {
			first = i
		}
	}
	return first
}

// The first line of the message of an error, as runtimes write it. They begin lines, so that
// frames of a stack do not match.
var errorLines = []func() *regexp.Regexp{
	pattern.OnUse(`^Exception in thread "|^Caused by: `), // Java
	pattern.OnUse(`^(panic|fatal error): `),              // Go
	// Node, Python, Java's loggers
	pattern.OnUse(`^(Uncaught )?[A-Za-z_$][\w$.]*(Error|Exception)\b( \[[\w-]+\])?(:|$)`),
	pattern.OnUse("^\\S+:\\d+:in ['`].*\\([A-Z]\\w*(::\\w+)*\\)$"),                                     // Ruby
	pattern.OnUse(`^PHP (Fatal|Parse) error: |^(.*: )?(command not found|No such file or directory)$`), // PHP, shells
	pattern.OnUse(`^(bash|sh|/bin/sh|/bin/bash): .*(not found|No such file or directory|Permission denied)`),
}

// anyError is what other programs write.
var anyError = pattern.OnUse(`(?i)\b(fatal|error|panic|exception)\b`)

// causeOf returns the index of the line that names the error; -1 if none is recognised.
func causeOf(lines []string) int {
	other := -1
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimRight(lines[i], "\r\n")
		if strings.HasPrefix(line, "Traceback (most recent call last):") {
			if at := afterTraceback(lines, i); at >= 0 {
				return at
			}
		}
		for _, e := range errorLines {
			if e().MatchString(line) {
				return i
			}
		}
		if other < 0 && anyError().MatchString(line) && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			other = i
		}
	}
	return other
}

// afterTraceback returns the line after the frames of a Python traceback.
func afterTraceback(lines []string, begin int) int {
	for i := begin + 1; i < len(lines); i++ {
		if line := lines[i]; line != "" && !strings.HasPrefix(line, " ") && !exit().MatchString(line) {
			return i
		}
	}
	return -1
}
