package main

import (
	"errors"
	"fmt"
	"path"
	"runtime"
)

// trace is an error with the stack where it occurred.
type trace struct {
	error
	stack []uintptr
}

func (t *trace) Unwrap() error { return t.error }

// traced adds the stack to an error. It returns nil for nil.
func traced(err error) error {
	if err == nil {
		return nil
	}
	stack := make([]uintptr, 32)
	return &trace{err, stack[:runtime.Callers(2, stack)]}
}

// traceOf returns the stack of an error, innermost call first.
func traceOf(err error) []string {
	lines := []string{}
	t := (*trace)(nil)
	if !errors.As(err, &t) {
		return lines
	}
	frames := runtime.CallersFrames(t.stack)
	for {
		f, more := frames.Next()
		if f.Function != "" {
			lines = append(lines, fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), path.Base(f.File), f.Line))
		}
		if !more {
			return lines
		}
	}
}
