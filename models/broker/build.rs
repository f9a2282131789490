//! The sources of the product ask for this where a model needs to see more than locks and tasks.
fn main() {
    println!("cargo::rustc-cfg=bugle_model");
    // A feature of the product that no model needs.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"counted\", \"fuzz\"))");
    println!("cargo::rerun-if-changed=build.rs");
}
