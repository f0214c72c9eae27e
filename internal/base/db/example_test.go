package db_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"

	"ingot/internal/base/db"
)

// A service migrates its tables, then reads and writes in transactions.
func ExampleDB_Update() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{URL: "sqlite:" + filepath.Join(dir, "example.db")})
	if err != nil {
		panic(err)
	}
	defer d.Close()
	if err := d.Migrate(ctx, db.Migrations{Name: "example", Files: fstest.MapFS{
		"00001_apps.sql": {Data: []byte("-- +goose Up\nCREATE TABLE apps (name TEXT PRIMARY KEY);")},
	}}); err != nil {
		panic(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO apps (name) VALUES (?)", "shop")
		return err
	})
	fmt.Println("stored:", err)
	err = d.View(ctx, func(tx *db.Tx) error {
		name, err := db.One(tx, func(row db.Scanner) (name string, err error) {
			err = row.Scan(&name)
			return name, err
		}, "SELECT name FROM apps")
		fmt.Println("read:", name)
		return err
	})
	fmt.Println(err)
	// Output:
	// stored: <nil>
	// read: shop
	// <nil>
}
