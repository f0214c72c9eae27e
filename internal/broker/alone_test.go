package broker

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"ingot/internal/base/testkit"
)

// A statement that was left running has ended before the instance is changed:
// otherwise it could create what was just found to be missing.
func TestStatementsLeftOver(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Postgres, MySQL)
	c := clientOf(t, b)
	p, m := ownDB[*postgres](t, b, c.made(Postgres, "small")), ownDB[*mariadb](t, b, c.made(MySQL, "small"))
	i := &instance{ID: uuid.NewString()}
	for _, server := range []struct {
		name  string
		sleep string // finds itself by its text
		count string
		hold  func(ctx context.Context, f func(querier) error) error
		drop  func(context.Context, *instance) error
		admin querier
	}{
		{
			Postgres, "SELECT pg_sleep(3601)",
			"SELECT COUNT(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(3601)' AND state = 'active'",
			func(ctx context.Context, f func(querier) error) error {
				return p.alone(ctx, i, func(p *postgres) error { return f(p.admin) })
			}, p.drop, p.admin,
		},
		{
			MySQL, "SELECT SLEEP(3601)", "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(3601)'",
			func(ctx context.Context, f func(querier) error) error {
				return m.alone(ctx, i, func(m *mariadb) error { return f(m.admin) })
			}, m.drop, m.admin,
		},
	} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			running := func() (n int) {
				if err := server.admin.QueryRowContext(context.Background(), server.count).Scan(&n); err != nil {
					t.Error(err)
				}
				return n
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = server.hold(context.Background(), func(conn querier) error {
					_, err := conn.ExecContext(context.Background(), server.sleep)
					return err
				}) // interrupted: an error, or an early end of the sleep
			}()
			testkit.Eventually(t, "the statement runs", func() bool { return running() == 1 })
			if err := server.drop(context.Background(), i); err != nil {
				t.Fatal(err)
			}
			<-ended
			// A server lists what it has interrupted for a moment longer.
			testkit.Eventually(t, "the statement has ended", func() bool { return running() == 0 })
		})
	}
}
