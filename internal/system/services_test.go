package system

import (
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/services/brokertest"
)

// TestRegisterBroker checks that a broker of the server itself can be registered
// at every start, also when its address and password have changed, and that
// its plans are public.
func TestRegisterBroker(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	r := &runtime{store: platformdb.New(d), platform: actions.New()}
	r.services = openServices(testConfig(t), r, "http://api.example.org")
	defer r.services.Stop()
	for range 2 {
		b := brokertest.New(t, &brokertest.Broker{})
		for range 2 {
			if err := r.registerBroker(t.Context(), "bundled", b.URL, brokertest.Username, brokertest.Password); err != nil {
				t.Fatal(err)
			}
		}
		err := r.store.View(t.Context(), func(tx platform.Tx) error {
			brokers, n, err := tx.ServiceBrokers().List(platform.Query{})
			if err != nil || n != 1 || brokers[0].URL != b.URL || brokers[0].State != platform.BrokerAvailable {
				t.Errorf("brokers: %v, %v", brokers, err)
			}
			plans, err := tx.ServicePlans().Count(platform.Where("visibility", platform.VisiblePublic))
			if plans != 6 {
				t.Errorf("got %d public plans, want 6", plans)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
