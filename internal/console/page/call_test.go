package page

import (
	"net/http"
	"strings"
	"testing"

	"ingot/internal/base/fault"
)

func TestErrorOf(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"errors":[{"detail":"of the platform"},{"detail":"and more"}]}`: "of the platform and more",
		`{"errors":["of the service"]}`:                                   "of the service",
		`{"error_description":"of the other"}`:                            "of the other",
		`<html>`:                                                          "Unprocessable Entity",
	} {
		if err := ErrorOf(http.StatusUnprocessableEntity, []byte(body)); !fault.Is(err, fault.Unprocessable) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
