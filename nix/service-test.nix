# A machine that runs the module.
{ testers, module }:
testers.runNixOSTest {
  name = "hermitmq";
  # The module brings an overlay.
  node.pkgsReadOnly = false;
  nodes.machine = {
    imports = [ module ];
    services.hermitmq = {
      enable = true;
      settings.topic = [
        {
          name = "orders";
          partitions = 2;
          durability = "always";
        }
      ];
    };
  };
  testScript = ''
    machine.wait_for_unit("hermitmq.service")
    machine.succeed("hermitmq health")

    with subtest("what is stored outlives the process"):
        machine.succeed("echo hello | hermitmq produce orders --partition 1")
        machine.succeed("systemctl kill --signal=KILL hermitmq.service")
        machine.wait_until_succeeds("hermitmq health")
        assert machine.succeed("hermitmq consume orders --partition 1 --count 1").strip() == "hello"

    with subtest("a stop is clean"):
        machine.succeed("systemctl stop hermitmq.service")
        result = machine.succeed("systemctl show --property=Result --value hermitmq.service")
        assert result.strip() == "success", result
  '';
}
