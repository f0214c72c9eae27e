//go:build unix

package db_test

import (
	"testing"

	"go.uber.org/goleak"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			dbtest.Conformance(t, func(t *testing.T) *db.DB { return dbtest.New(t, dialect) })
		})
	}
}
