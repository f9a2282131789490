//! The sources of the product ask for this where a model needs to see more than locks and tasks.
fn main() {
    println!("cargo::rustc-cfg=bugle_model");
    println!("cargo::rerun-if-changed=build.rs");
}
