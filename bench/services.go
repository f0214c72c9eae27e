package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"ingot/internal/base/seal"
	"ingot/internal/broker"
)

var servicesSection = Section{
	Name: "services",
	About: "from the request for a database to credentials that work: provision, bind and first connection through the " +
		"bundled broker, compared with bare statements on the same server",
	Run: measureServices,
}

// database is a type of server that is measured.
type database struct {
	offering, driver string
	// dsn turns a URL into a data source name.
	dsn func(*url.URL) string
	// make are the bare statements, drop undoes them; NAME is replaced by the
	// name of the database and the user.
	make, drop []string
}

var databases = []database{
	{
		offering: broker.Postgres, driver: "pgx", dsn: (*url.URL).String,
		make: []string{"CREATE DATABASE NAME", "CREATE USER NAME PASSWORD 'NAME'", "GRANT ALL ON DATABASE NAME TO NAME"},
		drop: []string{"DROP DATABASE NAME", "DROP USER NAME"},
	},
	{
		offering: broker.MySQL, driver: "mysql",
		dsn: func(u *url.URL) string {
			password, _ := u.User.Password()
			return fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, u.Host, u.Path)
		},
		make: []string{"CREATE DATABASE NAME", "CREATE USER NAME IDENTIFIED BY 'NAME'", "GRANT ALL ON NAME.* TO NAME"},
		drop: []string{"DROP DATABASE NAME", "DROP USER NAME"},
	},
}

func measureServices(ctx context.Context, r *Report) error {
	rounds := 40
	if r.Short {
		rounds = 4
	}
	keys, err := seal.Parse(seal.NewKey())
	if err != nil {
		return err
	}
	b, err := broker.New(broker.Config{Dir: filepath.Join(r.Scratch, "services"), Keys: keys})
	if err != nil {
		return err
	}
	if err := b.Start(ctx); err != nil {
		return err
	}
	defer b.Stop()
	for _, d := range databases {
		if why := b.Missing()[d.offering]; why != nil {
			r.Note("%s is not measured: %s", d.offering, why)
			continue
		}
		if err := d.measure(ctx, r, b, rounds); err != nil {
			return fmt.Errorf("%s: %w", d.offering, err)
		}
	}
	if b.Missing()[broker.Postgres] == nil {
		if err := measureNeighbours(ctx, r, b); err != nil {
			return err
		}
	}
	r.Note("%d rounds, ours and the bare one in turn, after one that starts the server. Bare is CREATE DATABASE, CREATE "+
		"USER and GRANT on an administrator's connection that stays open, then a connection of the new user with one query. "+
		"Ours are two HTTP requests with an intent on disk before and a record after each, the rights that keep others "+
		"out, and the same connection and query. What was made is removed outside of the time.", rounds)
	return nil
}

// measure alternates between both. The first round starts the server and is not
// counted.
func (d database) measure(ctx context.Context, r *Report, b *broker.Broker, rounds int) error {
	c, err := newBrokerClient(ctx, b, d.offering)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := d.ours(ctx, c, "first-"+d.offering); err != nil {
		return err
	}
	first := time.Since(began)
	kept := "kept-" + d.offering // its server is the bare one
	if _, err := c.do(ctx, http.MethodPut, "/v2/service_instances/"+kept, c.ids); err != nil {
		return err
	}
	address, err := url.Parse(b.AdminURL(kept))
	if err != nil {
		return err
	}
	admin, err := sql.Open(d.driver, d.dsn(address))
	if err != nil {
		return err
	}
	defer admin.Close()
	var ours, bare []time.Duration
	for n := range rounds {
		took, err := d.ours(ctx, c, fmt.Sprintf("bench-%s-%d", d.offering, n))
		if err != nil {
			return err
		}
		ours = append(ours, took)
		if took, err = d.bare(ctx, admin, *address, fmt.Sprintf("bare%d", n)); err != nil {
			return err
		}
		bare = append(bare, took)
	}
	slices.Sort(ours)
	slices.Sort(bare)
	r.Add(Figure{
		Name: d.offering + ", credentials usable, p50", Value: millis(percentile(ours, 0.5)), Unit: "ms",
		Beside: &Beside{"bare statements", millis(percentile(bare, 0.5))},
		Detail: fmt.Sprintf("p95 %s ms; the first, with the start of the server, %s ms",
			number(millis(percentile(ours, 0.95))), number(millis(first))),
	})
	return nil
}

func (d database) ours(ctx context.Context, c *brokerClient, id string) (took time.Duration, err error) {
	path := "/v2/service_instances/" + id
	began := time.Now()
	if _, err := c.do(ctx, http.MethodPut, path, c.ids); err != nil {
		return 0, err
	}
	defer func() {
		_, drop := c.do(ctx, http.MethodDelete, path+c.query, nil)
		err = errors.Join(err, drop)
	}()
	answer, err := c.do(ctx, http.MethodPut, path+"/service_bindings/b", c.ids)
	if err != nil {
		return 0, err
	}
	address, err := url.Parse(answer.Credentials.URI)
	if err != nil {
		return 0, err
	}
	err = d.connect(ctx, address)
	return time.Since(began), err
}

func (d database) bare(ctx context.Context, admin *sql.DB, address url.URL, name string) (took time.Duration,
	err error) {
	run := func(statements []string) error {
		for _, s := range statements {
			if _, err := admin.ExecContext(ctx, strings.ReplaceAll(s, "NAME", name)); err != nil {
				return err
			}
		}
		return nil
	}
	began := time.Now()
	if err := run(d.make); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, run(d.drop)) }()
	address.User, address.Path = url.UserPassword(name, name), "/"+name
	err = d.connect(ctx, &address)
	return time.Since(began), err
}

func (d database) connect(ctx context.Context, address *url.URL) error {
	db, err := sql.Open(d.driver, d.dsn(address))
	if err != nil {
		return err
	}
	defer db.Close()
	var one int
	return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// brokerClient calls a broker for the first plan of an offering.
type brokerClient struct {
	b     *broker.Broker
	http  *http.Client
	ids   map[string]string
	query string
}

type brokerAnswer struct {
	Services []struct {
		ID, Name string
		Plans    []struct{ ID string }
	}
	Credentials struct{ URI string }
}

func newBrokerClient(ctx context.Context, b *broker.Broker, offering string) (*brokerClient, error) {
	c := &brokerClient{b: b, http: &http.Client{Timeout: time.Minute}}
	catalog, err := c.do(ctx, http.MethodGet, "/v2/catalog", nil)
	if err != nil {
		return nil, err
	}
	for _, s := range catalog.Services {
		if s.Name == offering && len(s.Plans) > 0 {
			c.ids = map[string]string{"service_id": s.ID, "plan_id": s.Plans[0].ID, "organization_guid": "bench",
				"space_guid": "bench"}
			c.query = "?service_id=" + s.ID + "&plan_id=" + s.Plans[0].ID
			return c, nil
		}
	}
	return nil, errors.New("it is not in the catalog")
}

func (c *brokerClient) do(ctx context.Context, method, path string, body any) (answer brokerAnswer, err error) {
	content, err := json.Marshal(body)
	if err != nil {
		return answer, err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.b.URL()+path, bytes.NewReader(content))
	if err != nil {
		return answer, err
	}
	r.SetBasicAuth(broker.Username, c.b.Password())
	r.Header.Set("X-Broker-API-Version", "2.17")
	resp, err := c.http.Do(r)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode > http.StatusCreated {
		err = fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}
