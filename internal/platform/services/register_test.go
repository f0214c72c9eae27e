package services_test

import (
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/services/brokertest"
)

// The server registers its own broker at every start, also when the address and
// the password have changed. Its plans are public.
func TestRegisterAgain(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	for range 2 {
		b := brokertest.New(t, &brokertest.Broker{})
		for range 2 {
			if err := k.Register(t.Context(), "b", b.URL, brokertest.Username, brokertest.Password); err != nil {
				t.Fatal(err)
			}
		}
		k.view(func(tx platform.Tx) error {
			brokers, n, err := tx.ServiceBrokers().List(platform.Query{})
			if err != nil || n != 1 || brokers[0].URL != b.URL || brokers[0].State != platform.BrokerAvailable {
				t.Errorf("brokers are %v, %v, want one that is available at %s", brokers, err, b.URL)
			}
			plans, err := tx.ServicePlans().Count(platform.Where("visibility", platform.VisiblePublic))
			if plans != 6 {
				t.Errorf("got %d public plans, want 6", plans)
			}
			return err
		})
	}
}
