package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"ingot/internal/base/fault"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want fault.Code
	}{
		"nil":      {nil, ""},
		"plain":    {io.EOF, fault.Internal},
		"coded":    {fault.New(fault.NotFound, "App not found"), fault.NotFound},
		"wrapped":  {fmt.Errorf("read app: %w", fault.New(fault.NotFound, "App not found")), fault.NotFound},
		"outer":    {fault.Wrap(fault.New(fault.NotFound, "x"), fault.Conflict, "y"), fault.Conflict},
		"modified": {fault.New(fault.RateLimited, "slow down").After(time.Second).WithKind("k"), fault.RateLimited},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fault.CodeOf(tc.err); got != tc.want {
				t.Errorf("CodeOf(%v) = %q, want %q", tc.err, got, tc.want)
			}
			if tc.err != nil && !fault.Is(tc.err, tc.want) {
				t.Errorf("Is(%v, %q) = false", tc.err, tc.want)
			}
		})
	}
}

func TestErrorTextIsForTheLog(t *testing.T) {
	t.Parallel()
	err := fault.Wrap(io.ErrUnexpectedEOF, fault.BadRequest, "the upload of %s ended early", "app.zip")
	err.More = []string{"nothing was stored"}
	want := "BadRequest: the upload of app.zip ended early; nothing was stored: unexpected EOF"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err.Error(), want)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	if err := fault.Invalid(); err != nil {
		t.Errorf("no problems gave %v", err)
	}
	err := fault.Invalid("Name can't be blank", "Memory must be positive")
	var e *fault.Error
	if !errors.As(err, &e) || len(e.Messages()) != 2 || e.Code != fault.Unprocessable {
		t.Errorf("got %#v", err)
	}
}
